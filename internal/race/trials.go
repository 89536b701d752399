package race

// Trials returns how many times to repeat a trial of a single goroutine: n, but a sixth of that under
// the race detector, which finds nothing there. A trial that is one of many finds what it can
// without the detector.
func Trials(n int) int {
	if Enabled {
		return max(1, n/6)
	}
	return n
}
