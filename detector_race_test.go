//go:build race

package sash

// raceDetector reports whether the race detector is on.
const raceDetector = true
