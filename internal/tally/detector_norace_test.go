//go:build !race

package tally_test

const raceDetector = false
