package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const rootModule = "github.com/seed-30da4c49/sash"

// The command is installed from this work tree as it would be from a release: by go install of
// a version, in an empty directory, from a module proxy.
func TestGoInstall_OfAVersionNeedsNoClone(t *testing.T) {
	version := requiredVersion(t)
	proxy, cache, bin := t.TempDir(), t.TempDir(), t.TempDir()
	publish(t, proxy, module.Version{Path: rootModule, Version: version}, "../..")
	publish(t, proxy, module.Version{Path: rootModule + "/cmd/sash", Version: version}, ".")

	install := exec.CommandContext(t.Context(), "go", "install", rootModule+"/cmd/sash@"+version)
	install.Dir = t.TempDir()
	install.Env = append(os.Environ(),
		"GOWORK=off", "GOBIN="+bin, "GOMODCACHE="+cache, "GOFLAGS=-modcacherw", "GOOS=", "GOARCH=",
		"GONOSUMDB="+rootModule, "GOPRIVATE=",
		// The modules that the command requires come from the cache, or from where they came to it.
		fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s", filepath.ToSlash(proxy), filepath.ToSlash(goEnv(t, "GOMODCACHE")), goEnv(t, "GOPROXY")))
	out, err := install.CombinedOutput()
	require.NoError(t, err, string(out))

	log := filepath.Join(t.TempDir(), "access.log")
	line := `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326` + "\n"
	require.NoError(t, os.WriteFile(log, []byte(line+line), 0o600))
	out, err = exec.CommandContext(t.Context(), filepath.Join(bin, "sash"), "replay", "-limit", "1/m", log).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "2 events by 1 client")
}

// requiredVersion returns the version of sash that go.mod requires. go install refuses a go.mod
// with a replace.
func requiredVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	require.Empty(t, mod.Replace)
	for _, r := range mod.Require {
		if r.Mod.Path == rootModule {
			return r.Mod.Version
		}
	}
	require.Fail(t, "go.mod does not require sash")
	return ""
}

// publish adds the module in dir to a proxy of files.
func publish(t *testing.T, proxy string, m module.Version, dir string) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	require.NoError(t, os.MkdirAll(at, 0o700))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"list":              m.Version + "\n",
		m.Version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, m.Version),
		m.Version + ".mod":  string(mod),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	f, err := os.Create(filepath.Join(at, m.Version+".zip"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, zip.CreateFromDir(f, m, dir))
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
