//go:build !race

package sashredis_test

const raceDetector = false
