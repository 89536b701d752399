//go:build !amd64

package tsc

// Elsewhere the counter stands at 0, so that no calibration has a span: a Clock follows
// the system's clock.

func readUnordered() uint64 { return 0 }

func readOrdered() uint64 { return 0 }

func kernelUsesTSC() bool { return false }
