package tsc

import (
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Setting is the environment variable by which an operator rules the counter out: see [Usable].
const Setting = "SASH_CLOCK"

// Usable reports whether limiters read the time-stamp counter by default. They do so on amd64 where
// the kernel vouches that the counter runs at one rate, and alike on all cores:
//   - The kernel keeps time by the counter. Its clock source is tsc.
//   - Or the kernel of a virtual machine keeps time by kvm-clock or hyperv_clocksource_tsc_page,
//     by which the hypervisor tells how to read the counter. Then the kernel must list tsc among
//     the sources that are available, from which it removes a counter that it has found unstable.
//     And the processor must say that the counter is invariant: that it runs at one rate, also
//     while the processor sleeps. Linux itself prefers tsc then, in its newer versions.
//
// If Setting is "system", they do not. Any other value but "" is unknown, and taken for "system",
// as the system's clock is right everywhere.
//
// The first call reads the setting, and asks the kernel and the processor. Later calls return the
// same answer.
func Usable() bool { return made().counter }

// Description names the clock that limiters read by default, the clock source of the kernel, and why
// the counter is not read if it is not. An example is "time-stamp counter (kernel: tsc)".
func Description() string { return made().description }

// made is the choice of this process.
var made = sync.OnceValue(func() choice {
	sources := os.DirFS("/sys/devices/system/clocksource/clocksource0")
	return inspect(sources, cpuid, os.Getenv(Setting)).choose()
})

// A choice is the clock that limiters read by default.
type choice struct {
	counter     bool   // whether it is the time-stamp counter
	description string // which it is, and why
}

// A platform is what decides whether the time-stamp counter can be used.
type platform struct {
	setting   string   // what the operator has set
	readable  bool     // whether this package reads the counter of the architecture
	current   string   // the clock source of the kernel, "" if it names none
	available []string // the clock sources that the kernel could use
	invariant bool     // whether the processor says that its counter is invariant
}

// inspect returns the platform: by sources, the directory in which Linux describes its clock sources,
// by the processor's answers to cpuid, and by the setting of the operator.
func inspect(sources fs.FS, cpuid func(leaf uint32) (eax, edx uint32), setting string) platform {
	current, _ := fs.ReadFile(sources, "current_clocksource")
	available, _ := fs.ReadFile(sources, "available_clocksource")
	return platform{
		setting:   setting,
		readable:  readable,
		current:   strings.TrimSpace(string(current)),
		available: strings.Fields(string(available)),
		invariant: invariant(cpuid),
	}
}

// invariant reports whether the processor says that its counter is invariant.
func invariant(cpuid func(leaf uint32) (eax, edx uint32)) bool {
	const (
		highestLeaf = 0x8000_0000 // EAX is the highest leaf of this range that there is
		powerLeaf   = 0x8000_0007
		invariant   = 1 << 8 // in EDX
	)
	if highest, _ := cpuid(highestLeaf); highest < powerLeaf {
		return false // the answer to a leaf that there is not may be anything
	}
	_, power := cpuid(powerLeaf)
	return power&invariant != 0
}

// choose returns the choice on p.
func (p platform) choose() choice {
	kernel := "kernel: " + p.current
	if p.current == "" {
		kernel = "kernel: unknown"
	}
	if why := p.objection(); why != "" {
		return choice{false, "system clock (" + kernel + "; " + why + ")"}
	}
	return choice{true, "time-stamp counter (" + kernel + ")"}
}

// objection returns why the counter is not used on p, or "" if it is.
func (p platform) objection() string {
	switch {
	case p.setting == "system":
		return Setting + "=system"
	case p.setting != "":
		return Setting + "=" + strconv.Quote(p.setting) + " is unknown, and taken for system"
	case !p.readable:
		return "no counter is read on " + runtime.GOARCH
	case p.current == "tsc":
		return ""
	case p.current != "kvm-clock" && p.current != "hyperv_clocksource_tsc_page":
		return "its clock source does not vouch for the processor's counter"
	case !slices.Contains(p.available, "tsc"):
		return "tsc is not available"
	case !p.invariant:
		return "the processor's counter is not invariant"
	}
	return ""
}
