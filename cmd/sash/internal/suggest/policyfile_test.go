package suggest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
	"github.com/seed-30da4c49/sash/internal/command"
)

// limitsFile returns the path of a file of policies with that content, or of none if it is empty.
func limitsFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if content != "" {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o640))
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestPolicyFile_IsMade(t *testing.T) {
	path := limitsFile(t, "")
	got := invoke("", "-policy", path, "-percentile", "98", "-window", "1m", "-where", "path=/login", "-where", "method=POST", "-where", "status=401", shop)
	require.Equal(t, command.OK, got.status, got.stderr)
	require.Equal(t, `policies:
  - name: "suggested"
    pattern: "POST /login"
    limits: [5/m]
    key: address # behind a proxy: {address: {trust-proxies: [10.0.0.0/8]}}
    charge: [401]
    shadow: true
`, content(t, path))
	require.Contains(t, got.stdout, "sash replay -policy "+path+" ../../testdata/shop.log.gz\n")
	policies, err := policyfile.Load(path)
	require.NoError(t, err)
	require.True(t, policies[0].Shadow)
	require.Equal(t, []sash.Limit{sash.PerMinute(5)}, policies[0].Limits)
	require.True(t, policies[0].Charge(401))
	require.False(t, policies[0].Charge(200))
}

// All that the file had stays as it is, and so do its mode and a link to it.
func TestPolicyFile_IsExtended(t *testing.T) {
	const before = "# by hand\npolicies:\n- name: all   # of us\n  limits: 5/s\n  key: everyone\n"
	path := limitsFile(t, before)
	link := filepath.Join(t.TempDir(), "link.yaml")
	require.NoError(t, os.Symlink(path, link))
	got := invoke("", "-policy", link, "-name", "second one", "-window", "1m", shop)
	require.Equal(t, command.OK, got.status, got.stderr)
	after, found := strings.CutPrefix(content(t, path), before)
	require.True(t, found)
	require.True(t, strings.HasPrefix(after, "- name: \"second one\"\n  limits: ["), after)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left behind")

	got = invoke("", "-policy", link, "-name", "second one", "-window", "1m", shop)
	require.Equal(t, command.Usage, got.status)
	require.Contains(t, got.stderr, `has a policy "second one": nothing is overwritten; give another -name`)
}

// What cannot be added is refused, and the file stays as it is.
func TestPolicyFile_IsNotOverwritten(t *testing.T) {
	for before, want := range map[string]string{
		"policies: [{name: a, limits: 1/s, key: everyone}]\n":                "cannot be appended",
		"policies:\n  - {name: a, limits: 1/s, key: everyone}\nparts: [1]\n": "cannot be appended",
		"policies:\n  - name: a\n    limits: [1/s\n":                         "yaml",
		"parts: []\n": "it has no policies",
	} {
		path := limitsFile(t, before)
		got := invoke("", "-policy", path, "-window", "1m", shop)
		require.NotEqual(t, command.OK, got.status)
		require.Contains(t, got.stderr, want)
		require.Equal(t, before, content(t, path))
		if want == "cannot be appended" {
			require.Contains(t, got.stderr, "add it yourself:")
			require.Contains(t, got.stdout, "suggested", "the report is there all the same")
		}
	}
	path := limitsFile(t, "")
	got := invoke("", "-policy", path, "-window", "30d", shop)
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "no limit is suggested, so "+path+" is as it was")
	require.NoFileExists(t, path)

	got = invoke("", "-policy", filepath.Join(path, "none", "limits.yaml"), "-window", "1m", shop)
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "sash suggest: open "+filepath.Join(path, "none", "limits.yaml")+": ")
}

// An editing is a log of one client, during whose reading something is done.
type editing struct {
	io.Reader
	do func()
}

func (e *editing) Read(p []byte) (int, error) {
	if e.do != nil {
		e.do()
	}
	e.do = nil
	return e.Reader.Read(p)
}

// An edit made while the command reads the log is not lost, and neither is a file made then.
func TestPolicyFile_IsLeftAloneIfItHasChanged(t *testing.T) {
	const before, after = "policies:\n  - {name: a, limits: 1/s, key: everyone}\n", "policies:\n  - {name: b, limits: 2/s, key: everyone}\n"
	write := func(path string) { require.NoError(t, os.WriteFile(path, []byte(after), 0o640)) }
	remove := func(path string) { require.NoError(t, os.Remove(path)) }
	for name, tt := range map[string]struct {
		before string
		edit   func(path string)
		after  string
		why    string
	}{
		"edited":  {before, write, after, ""},
		"removed": {before, remove, "", ": "},
		"made":    {"", write, after, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := limitsFile(t, tt.before)
			var stdout, stderr bytes.Buffer
			log := &editing{strings.NewReader(minutes(3, 3)), func() { tt.edit(path) }}
			status := Run(t.Context(), []string{"-policy", path, "-window", "1m"}, log, &stdout, &stderr)
			require.Equal(t, command.Failed, status)
			require.Contains(t, stderr.String(), "-policy: "+path+" has changed since the command began; run it again"+tt.why)
			require.Contains(t, stdout.String(), "suggested", "the report is there all the same")
			entries, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			if tt.after == "" {
				require.Empty(t, entries)
				return
			}
			require.Len(t, entries, 1, "nothing is left behind")
			require.Equal(t, tt.after, content(t, path))
		})
	}
}

// The policies are written to the file that was read, or not at all: a link to it may lead elsewhere by now, or
// something else be in its place.
func TestPolicyFile_IsTheOneThatWasRead(t *testing.T) {
	const before = "policies:\n  - {name: a, limits: 1/s, key: everyone}\n"
	run := func(path string, edit func()) string {
		var stdout, stderr bytes.Buffer
		status := Run(t.Context(), []string{"-policy", path, "-window", "1m"}, &editing{strings.NewReader(minutes(3, 3)), edit}, &stdout, &stderr)
		require.Equal(t, command.Failed, status)
		require.Contains(t, stderr.String(), "-policy: "+path+" has changed since the command began; run it again")
		return stderr.String()
	}
	was, is := limitsFile(t, before), limitsFile(t, before)
	link := filepath.Join(t.TempDir(), "link.yaml")
	require.NoError(t, os.Symlink(was, link))
	run(link, func() {
		require.NoError(t, os.Remove(link))
		require.NoError(t, os.Symlink(is, link))
	})
	require.Equal(t, before, content(t, was))
	require.Equal(t, before, content(t, is))

	said := run(was, func() {
		require.NoError(t, os.Remove(was))
		require.NoError(t, os.Mkdir(was, 0o700))
	})
	require.Contains(t, said, "run it again: ", "a directory is there now")
}

// A new file has its name only once it is whole, so a process that is killed leaves no half of it.
func TestPolicyFile_IsWhole(t *testing.T) {
	path, linked := limitsFile(t, ""), false
	f := &policyFile{path: path, given: path, link: func(from, to string) error {
		linked = true
		require.NoFileExists(t, path)
		require.Equal(t, "policies", content(t, from))
		require.Equal(t, filepath.Dir(path), filepath.Dir(from), "on one file system")
		return os.Link(from, to)
	}}
	require.NoError(t, f.create([]byte("policies")))
	require.True(t, linked)
	require.Equal(t, "policies", content(t, path))
}

// A file system may have no hard links, by which a new file gets its name. It is then written in place.
func TestPolicyFile_IsMadeWithoutLinks(t *testing.T) {
	for _, reason := range []error{fs.ErrPermission, errors.ErrUnsupported, io.ErrClosedPipe} {
		path := limitsFile(t, "")
		f := &policyFile{path: path, given: path, link: func(from, to string) error {
			return &os.LinkError{Op: "link", Old: from, New: to, Err: reason}
		}}
		require.NoError(t, f.create([]byte("policies")))
		require.Equal(t, "policies", content(t, path))
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing is left behind")
		require.ErrorContains(t, f.create([]byte("policies")), "has changed since the command began")
	}
}

// If no file can be made next to it, it is written in place, and the error names the file that was asked for.
func TestPolicyFile_IsMadeWithoutAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("a", 245)+".yaml")
	f := &policyFile{path: path, given: path, link: os.Link}
	require.NoError(t, f.create([]byte("policies")))
	require.Equal(t, "policies", content(t, path))

	path = filepath.Join(path, "none", "limits.yaml")
	f = &policyFile{path: path, given: path, link: os.Link}
	var fault *fs.PathError
	require.ErrorAs(t, f.create([]byte("policies")), &fault)
	require.Equal(t, path, fault.Path)
}

// A policy of half a log is not written, as a script may deploy it.
func TestPolicyFile_IsNotMadeOfHalfALog(t *testing.T) {
	path, bad := limitsFile(t, ""), filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("x\n"), 0o600))
	got := invoke(minutes(3, 3), "-policy", path, "-window", "1m", "-", bad)
	require.Equal(t, command.Failed, got.status)
	require.Equal(t, "sash suggest: no line of "+bad+" can be read; line 1: no known format: see -format and -time\n"+
		"sash suggest: -policy: a part of the log is missing, so "+path+" is as it was\n", got.stderr)
	require.Contains(t, got.stdout, "suggested", "the report is there all the same")
	require.NoFileExists(t, path)
}

// A link to no file cannot be extended, and no file is made in its place.
func TestPolicyFile_IsNoLinkToNothing(t *testing.T) {
	link := limitsFile(t, "")
	require.NoError(t, os.Symlink("none.yaml", link))
	got := invoke("", "-policy", link, "-window", "1m", shop)
	require.Equal(t, command.Usage, got.status)
	require.Contains(t, got.stderr, "-policy: open "+link+": ")
}

func TestPolicyFile_SaysWhatItCannotTell(t *testing.T) {
	for args, want := range map[string]string{
		"-policy limits.json":                                      "want a name that ends in .yaml",
		"-policy limits.yaml -key user":                            "a file has no key for user of -key",
		"-policy limits.yaml -time at -key none -cost input":       "a file cannot tell the cost input, only size",
		"-policy limits.yaml -where user=ann":                      "a file cannot say for which requests user=ann holds",
		"-policy limits.yaml -where path=/a* -where status=200,xx": "path=/a* holds",
	} {
		got := invoke("", strings.Fields(args)...)
		require.Equal(t, command.Usage, got.status, args)
		require.Contains(t, got.stderr, want)
	}
	require.NoFileExists(t, "limits.yaml")
}

// steady returns a log of ten hours, in which fifty clients request two paths, more in an hour than in a
// minute.
func steady() string {
	var log strings.Builder
	for i := range 600 {
		path := []string{"/stats", "/stats-1h"}[i%2]
		fmt.Fprintf(&log, "192.0.2.%d - - [10/Mar/2026:%02d:%02d:00 +0000] \"GET %s HTTP/1.1\" 200 1\n", i%50, i/60, i%60, path)
	}
	return log.String()
}

// A file that would not load with the new policies stays as it is. Each limit of a policy with several is a
// quota with a name of its own, and these names differ in a file.
func TestPolicyFile_IsNotMadeInvalid(t *testing.T) {
	many := "policies:\n"
	for i := range 8192 {
		many += fmt.Sprintf("  - {name: p%d, limits: 1/s, key: everyone}\n", i)
	}
	for name, tt := range map[string]struct{ before, want string }{
		"a quota's name":  {"policies:\n  - {name: api-1h, limits: 1/s, key: account, cost: tokens}\n", `"api-1h"`},
		"too many limits": {many, "8192 limits"},
	} {
		t.Run(name, func(t *testing.T) {
			path := limitsFile(t, tt.before)
			got := invoke(steady(), "-policy", path, "-name", "api", "-window", "1m", "-window", "1h", "-")
			require.Equal(t, command.Failed, got.status, got.stderr)
			require.Contains(t, got.stderr, "-policy: "+path+" would not load with what is added, so nothing is written")
			require.Contains(t, got.stderr, tt.want)
			require.Contains(t, got.stdout, "suggested", "the report is there all the same")
			require.Equal(t, tt.before, content(t, path))
		})
	}
}

func TestPolicyFile_OfGroupsIsNotMadeInvalid(t *testing.T) {
	path := limitsFile(t, "")
	got := invoke(steady(), "-by", "path", "-policy", path, "-window", "1m", "-window", "1h", "-")
	require.Equal(t, command.Failed, got.status, got.stderr)
	require.Contains(t, got.stderr, "would not load with what is added")
	require.Contains(t, got.stderr, `"/stats-1h"`)
	require.NoFileExists(t, path)
}

// A file may name functions of the program. Other faults of it are found before the log is read.
func TestPolicyFile_MustBeValid(t *testing.T) {
	const before = "policies:\n  - {name: a, limits: 1/s, key: account, cost: tokens, leave: few, skip: ours, settle: used, plan: tariff, plans: {b: 2/s}}\n"
	path := limitsFile(t, before)
	got := invoke(minutes(3, 3), "-policy", path, "-window", "1m")
	require.Equal(t, command.OK, got.status, got.stderr)
	require.True(t, strings.HasPrefix(content(t, path), before+"  - name: \"suggested\"\n"))
	for text, want := range map[string]string{
		"policies:\n  - {name: a, limits: 1/s, key: ''}\n":        "-policy: PATH:2:",
		"policies:\n  - {name: a, limits: many, key: everyone}\n": "policies[0].limits",
		"policies:\n  - {name: a, limit: 1/s, key: account}\n":    "policies[0].limit: unknown field",
	} {
		path := limitsFile(t, text)
		got := invoke("no log", "-policy", path, "-window", "1m")
		require.Equal(t, command.Usage, got.status, text)
		require.Contains(t, got.stderr, strings.ReplaceAll(want, "PATH", path))
		require.NotContains(t, got.stderr, "account")
		require.Equal(t, text, content(t, path))
	}
}
