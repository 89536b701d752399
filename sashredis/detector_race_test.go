//go:build race

package sashredis_test

// raceDetector reports whether the race detector is on, under which calls take ten times as long.
const raceDetector = true
