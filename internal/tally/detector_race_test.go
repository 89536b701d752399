//go:build race

package tally_test

// raceDetector reports whether the race detector is on, under which a sync.Pool drops objects.
const raceDetector = true
