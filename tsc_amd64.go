package sash

import (
	"bytes"
	"os"
)

// tsc reads the time-stamp counter. The processor may do so earlier than the
// calls before it are done, by some tens of nanoseconds.
func tsc() uint64

// tscInOrder reads the time-stamp counter once the instructions before it are done,
// so that it is not below a reading that another core took before, and told.
func tscInOrder() uint64

// vouched reports whether the kernel itself keeps time by the time-stamp counter,
// which it does only where that runs at one rate, and alike on all cores.
func vouched() bool {
	source, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return string(bytes.TrimSpace(source)) == "tsc"
}
