//go:build unix

package suggest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
)

// A new file is as private as the umask says.
func TestPolicyFile_HasTheModeOfTheUmask(t *testing.T) {
	path := limitsFile(t, "")
	defer syscall.Umask(syscall.Umask(0o027))
	got := invoke("", "-policy", path, "-window", "1m", shop)
	require.Equal(t, command.OK, got.status, got.stderr)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left behind")
}
