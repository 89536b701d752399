//go:build !amd64

package tsc

// readable is whether this package reads the counter of the architecture.
//
// On arm64 it reads none. The system's clock is the generic timer there: the architecture has
// that run at one rate and alike on all cores, in virtual machines too, and the vDSO of Linux
// reads it without a call of the kernel. So there is nothing to find out about the machine. What
// is left to gain is the call of the vDSO and the order of the reading.
const readable = false

// Elsewhere the counter stands at 0, so that no calibration has a span: a Clock follows
// the system's clock.

func readUnordered() uint64 { return 0 }

func readOrdered() uint64 { return 0 }

func cpuid(uint32) (eax, edx uint32) { return 0, 0 }
