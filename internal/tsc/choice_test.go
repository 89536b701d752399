package tsc

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The counter is used on a platform that has everything, and not if any one thing is missing.
func TestPlatform_ChoosesTheCounterOnlyWhereTheKernelVouchesForIt(t *testing.T) {
	listed, unlisted := []string{"kvm-clock", "tsc", "acpi_pm"}, []string{"kvm-clock", "acpi_pm"}
	tests := []struct {
		name     string
		platform platform
		want     string
	}{
		{"the kernel keeps time by it",
			platform{"", true, "tsc", listed, true},
			"time-stamp counter (kernel: tsc)"},
		{"the kernel keeps time by it, whatever the processor says",
			platform{"", true, "tsc", nil, false},
			"time-stamp counter (kernel: tsc)"},
		{"KVM",
			platform{"", true, "kvm-clock", listed, true},
			"time-stamp counter (kernel: kvm-clock)"},
		{"KVM, unstable",
			platform{"", true, "kvm-clock", unlisted, true},
			"system clock (kernel: kvm-clock; tsc is not available)"},
		{"KVM, only the early form of the counter",
			platform{"", true, "kvm-clock", []string{"tsc-early"}, true},
			"system clock (kernel: kvm-clock; tsc is not available)"},
		{"KVM, not invariant",
			platform{"", true, "kvm-clock", listed, false},
			"system clock (kernel: kvm-clock; the processor's counter is not invariant)"},
		{"KVM, neither",
			platform{"", true, "kvm-clock", unlisted, false},
			"system clock (kernel: kvm-clock; tsc is not available)"},
		{"Hyper-V",
			platform{"", true, "hyperv_clocksource_tsc_page", listed, true},
			"time-stamp counter (kernel: hyperv_clocksource_tsc_page)"},
		{"Hyper-V, unstable",
			platform{"", true, "hyperv_clocksource_tsc_page", unlisted, true},
			"system clock (kernel: hyperv_clocksource_tsc_page; tsc is not available)"},
		{"Hyper-V, not invariant",
			platform{"", true, "hyperv_clocksource_tsc_page", listed, false},
			"system clock (kernel: hyperv_clocksource_tsc_page; the processor's counter is not invariant)"},
		{"Hyper-V without its page",
			platform{"", true, "hyperv_clocksource_msr", listed, true},
			"system clock (kernel: hyperv_clocksource_msr; its clock source does not vouch for the processor's counter)"},
		{"a timer on the board",
			platform{"", true, "hpet", listed, true},
			"system clock (kernel: hpet; its clock source does not vouch for the processor's counter)"},
		{"Xen",
			platform{"", true, "xen", listed, true},
			"system clock (kernel: xen; its clock source does not vouch for the processor's counter)"},
		{"not Linux",
			platform{"", true, "", nil, true},
			"system clock (kernel: unknown; its clock source does not vouch for the processor's counter)"},
		{"another architecture",
			platform{"", false, "arch_sys_counter", []string{"arch_sys_counter"}, false},
			"system clock (kernel: arch_sys_counter; no counter is read on " + runtime.GOARCH + ")"},
		{"another architecture, though it says all else",
			platform{"", false, "tsc", listed, true},
			"system clock (kernel: tsc; no counter is read on " + runtime.GOARCH + ")"},
		{"ruled out",
			platform{"system", true, "tsc", listed, true},
			"system clock (kernel: tsc; SASH_CLOCK=system)"},
		{"ruled out on KVM",
			platform{"system", true, "kvm-clock", listed, true},
			"system clock (kernel: kvm-clock; SASH_CLOCK=system)"},
		{"an unknown setting",
			platform{"tsc ", true, "tsc", listed, true},
			`system clock (kernel: tsc; SASH_CLOCK="tsc " is unknown, and taken for system)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, choice{strings.HasPrefix(tt.want, "time-stamp counter"), tt.want}, tt.platform.choose())
		})
	}
}

// Every combination of what the platform tells, against the rule in one sentence.
func TestPlatform_ChoosesByItsRuleInEveryCombination(t *testing.T) {
	chosen, yesNo := 0, []bool{false, true}
	guests := []string{"kvm-clock", "hyperv_clocksource_tsc_page"}
	for _, setting := range []string{"", "system", "tsc"} {
		for _, readable := range yesNo {
			for _, current := range append(guests, "", "tsc", "tsc-early", "hyperv_clocksource_msr", "hpet") {
				for _, available := range [][]string{nil, {"tsc"}, {"hpet", "tsc"}, {"kvm-clock", "tsc-early"}} {
					for _, invariant := range yesNo {
						p := platform{setting, readable, current, available, invariant}
						guest := slices.Contains(guests, current)
						sound := current == "tsc" || guest && slices.Contains(available, "tsc") && invariant
						got := p.choose()
						require.Equal(t, setting == "" && readable && sound, got.counter, "%+v", p)
						require.Equal(t, got.counter, p.objection() == "", "%+v", p)
						if got.counter {
							chosen++
						}
					}
				}
			}
		}
	}
	require.Equal(t, 4*2+2*2, chosen)
}

func TestPlatform_IsWhatTheKernelAndTheProcessorTell(t *testing.T) {
	sound := func(leaf uint32) (eax, edx uint32) { return 0x8000_0008, 1 << 8 }
	linux := fstest.MapFS{
		"current_clocksource":   {Data: []byte("kvm-clock\n")},
		"available_clocksource": {Data: []byte("kvm-clock tsc acpi_pm \n")},
	}
	listed := []string{"kvm-clock", "tsc", "acpi_pm"}
	require.Equal(t, platform{"", readable, "kvm-clock", listed, true}, inspect(linux, sound, ""))
	elsewhere := inspect(fstest.MapFS{}, sound, "system")
	require.Equal(t, platform{"system", readable, "", []string{}, true}, elsewhere)
}

func TestPlatform_IsInvariantIfTheProcessorSaysSo(t *testing.T) {
	const bit = 1 << 8
	for name, tt := range map[string]struct {
		highest, power uint32
		want           bool
	}{
		"invariant":                    {0x8000_0007, bit, true},
		"with all other bits":          {0x8000_0028, 0xffff_ffff, true},
		"without it, all other bits":   {0x8000_0028, ^uint32(bit), false},
		"a processor without the leaf": {0x8000_0006, bit, false},
		"without leaves of this range": {0, bit, false},
	} {
		got := invariant(func(leaf uint32) (eax, edx uint32) {
			switch leaf {
			case 0x8000_0000:
				return tt.highest, ^uint32(0)
			case 0x8000_0007:
				return ^uint32(0), tt.power
			}
			t.Errorf("%s: leaf %#x", name, leaf)
			return 0, 0
		})
		require.Equal(t, tt.want, got, name)
	}
}

// Linux lists the bit among the flags of the processor: nonstop_tsc.
func TestPlatform_IsInvariantHereIfTheKernelSaysSo(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !readable {
		t.Log("there is no /proc/cpuinfo, or no counter is read here")
		return
	}
	flags := strings.Fields(string(info))
	require.Equal(t, slices.Contains(flags, "nonstop_tsc"), invariant(cpuid))
}
