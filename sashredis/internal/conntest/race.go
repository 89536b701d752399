//go:build race

package conntest

const raceDetector = true
