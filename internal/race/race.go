//go:build race

// Package race tells tests whether the race detector is on. Under it calls take ten times
// as long, and a sync.Pool drops some of what it is given.
package race

// Enabled reports whether the race detector is on.
const Enabled = true
