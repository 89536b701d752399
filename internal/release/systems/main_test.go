package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/race"
)

func TestRun_FindsWhatDoesNotCompileOnASystem(t *testing.T) {
	if race.Enabled {
		t.Skip("takes a minute with the race detector, most of it in the checker of types")
	}
	for _, c := range []struct {
		name, file, text string
		faults           map[string]string // by system
	}{
		{"nothing is wrong", "a.go", "import _ \"strings\"", nil},
		{"a signal", "a.go", "import \"syscall\"\nvar Signal = syscall.SIGUSR1", map[string]string{"windows/amd64": "undefined: syscall.SIGUSR1"}},
		{"a signal in a test", "a_test.go", "import \"syscall\"\nvar Signal = syscall.SIGUSR1", map[string]string{"windows/amd64": "undefined: syscall.SIGUSR1"}},
		{"in a function", "a.go", "func f() int { return 1 << 40 }", map[string]string{"linux/386": "overflows"}},
		{"a file of one system", "a_linux.go", "var x int = \"text\"", map[string]string{"linux/386": "cannot use"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOWORK", "off")
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module a\n\ngo 1.25.0\n", "doc.go": "package a", c.file: "package a\n" + c.text} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
			}
			for _, system := range []string{"windows/amd64", "linux/386"} {
				var stdout, stderr strings.Builder
				status := run(t.Context(), dir, []string{system}, &stdout, &stderr)
				if want, ok := c.faults[system]; ok {
					require.Equal(t, command.Failed, status)
					require.Contains(t, stderr.String(), "systems: "+system+": "+filepath.Join(dir, c.file))
					require.Contains(t, stderr.String(), want)
					require.Contains(t, stdout.String(), ", 1 faults\n", "each is told once")
				} else {
					require.Equal(t, command.OK, status, stderr.String())
					require.Contains(t, stdout.String(), ", 0 faults\n")
				}
			}
		})
	}
}

func TestRun_RefusesWhatIsNoSystem(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{nil, command.Usage, "want systems"},
		{[]string{"windows"}, command.Failed, "windows: a system is GOOS/GOARCH"},
		{[]string{"linux/amd65"}, command.Failed, "linux/amd65: "},
	} {
		var stdout, stderr strings.Builder
		require.Equal(t, c.status, run(t.Context(), ".", c.args, &stdout, &stderr), c.args)
		require.Contains(t, stderr.String(), c.says)
	}
}
