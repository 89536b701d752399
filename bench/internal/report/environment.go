package report

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/cpuid/v2"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/seed-30da4c49/sash/internal/tsc"
)

// An Environment describes the machine, the time and the version of a measurement.
type Environment struct {
	CPU     string    `json:"cpu"`
	Cores   int       `json:"cores"` // GOMAXPROCS
	Free    int64     `json:"free_memory_bytes"`
	Go      string    `json:"go"`
	System  string    `json:"system"`
	Clock   string    `json:"clock"` // by which limiters of sash decide, if they are given none
	Commit  string    `json:"commit"`
	Command string    `json:"command"`
	Time    time.Time `json:"time"`
}

// Here returns the Environment of this process, which was started by command.
func Here(ctx context.Context, command string) Environment {
	return Environment{
		CPU:     cpu(),
		Cores:   runtime.GOMAXPROCS(0),
		Free:    freeMemory(),
		Go:      strings.TrimPrefix(runtime.Version(), "go"),
		System:  runtime.GOOS + "/" + runtime.GOARCH,
		Clock:   tsc.Description(),
		Commit:  commit(ctx),
		Command: command,
		Time:    time.Now().UTC().Truncate(time.Second),
	}
}

func cpu() string {
	if cpuid.CPU.BrandName == "" {
		return "unknown CPU"
	}
	return strings.TrimSpace(cpuid.CPU.BrandName)
}

// freeMemory returns the bytes available without swapping, or a low guess if the system does
// not tell.
func freeMemory() int64 {
	const guess = 1 << 30
	m, err := mem.VirtualMemory()
	if err != nil || m.Available == 0 {
		return guess
	}
	return int64(m.Available)
}

// commit returns the commit that is checked out. A program built by "go run" does not record
// it.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// String returns all fields but the clock and the command.
func (e Environment) String() string {
	return e.CPU + ", " + plural(e.Cores, "core") + ", " + humanize.IBytes(uint64(e.Free)) + " free, " + e.System +
		", Go " + e.Go + ", commit " + e.Commit + ", " + e.Time.Format("2006-01-02")
}

func plural(n int, of string) string {
	s := humanize.Comma(int64(n)) + " " + of
	if n != 1 {
		s += "s"
	}
	return s
}
