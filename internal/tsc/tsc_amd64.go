package tsc

// readable is whether this package reads the counter of the architecture.
const readable = true

// readUnordered reads the time-stamp counter. The processor may do so before the
// instructions that precede the call are done, by some tens of nanoseconds.
func readUnordered() uint64

// readOrdered reads the time-stamp counter once the instructions that precede the call
// are done. So it returns no less than a reading that another core has taken and stored,
// and that this goroutine has loaded.
func readOrdered() uint64

// cpuid returns two of the registers with which the processor answers the question leaf.
func cpuid(leaf uint32) (eax, edx uint32)
