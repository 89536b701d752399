//go:build race

package httplimit_test

// raceDetector is whether the race detector is on. Under it, a sync.Pool drops some
// of what it is given, and what is pooled is made anew.
const raceDetector = true
