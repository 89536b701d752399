//go:build !race

package sash

const raceDetector = false
