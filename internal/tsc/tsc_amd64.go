package tsc

import (
	"bytes"
	"os"
)

// readUnordered reads the time-stamp counter. The processor may do so before the
// instructions that precede the call are done, by some tens of nanoseconds.
func readUnordered() uint64

// readOrdered reads the time-stamp counter once the instructions that precede the call
// are done. So it returns no less than a reading that another core has taken and stored,
// and that this goroutine has loaded.
func readOrdered() uint64

// kernelUsesTSC reports whether the kernel itself keeps time by the time-stamp counter.
// It does so only where that runs at one rate, and alike on all cores.
func kernelUsesTSC() bool {
	source, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return string(bytes.TrimSpace(source)) == "tsc"
}
