//go:build race

package sash

// raceDetector is whether the race detector is on.
const raceDetector = true
