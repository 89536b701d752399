package race

import "os"

// Trials returns how many random trials a test makes: n, but a sixth of that under the race detector,
// which makes them slow and finds little in them. With SASH_ALL_STEPS set it is n.
func Trials(n int) int {
	if Enabled && os.Getenv("SASH_ALL_STEPS") == "" {
		return max(1, n/6)
	}
	return n
}
