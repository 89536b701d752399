//go:build unix

package firsthour

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	root     = "../.."
	patience = 5 * time.Minute // with a command, which may compile Prometheus's client
)

// The page is followed as a reader does it. Its Go blocks become files, its diffs change them, its commands run in
// the order of the page, and print what the page shows. At the end of each step, Ctrl-C ends the servers.
func TestFirstHour(t *testing.T) {
	h, steps := startHour(t), 0
	for _, b := range blocks(t) {
		switch b.kind {
		case "##":
			h.endServers()
			steps++
		case "go":
			h.write(b)
		case "diff":
			h.change(b)
		case "sh":
			h.run(b)
		case "text":
			h.compare(b)
		default:
			t.Fatalf("line %d: a block of %q is not followed", b.line, b.kind)
		}
	}
	h.endServers()
	require.Equal(t, 9, steps, "with what comes after the last one")
}

// A block is a fenced block of the page, or a heading of a step.
type block struct {
	line       int
	kind, text string
}

var passages = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$|^(##) ")

func blocks(t *testing.T) (all []block) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/first-hour.md"))
	require.NoError(t, err)
	for _, m := range passages.FindAllSubmatchIndex(page, -1) {
		b := block{line: 1 + strings.Count(string(page[:m[0]]), "\n"), kind: "##"}
		if m[2] >= 0 {
			b.kind, b.text = string(page[m[2]:m[3]]), string(page[m[4]:m[5]])
		}
		all = append(all, b)
	}
	return all
}

// An hour is a reader's machine: a folder of the service, and terminals.
type hour struct {
	t       *testing.T
	dir     string            // the folder in which commands run
	there   *strings.Replacer // from what the page says to what this machine has: addresses, the clone
	back    *strings.Replacer // from addresses of this machine to what the page says
	pinned  string            // commands before a go mod tidy, for the versions that the modules here require
	servers []*server         // in the order in which they were started

	printed string // by the last command that is not a server
}

func startHour(t *testing.T) *hour {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	need(t, "go", "SASH_SERVERS")
	need(t, "curl", "SASH_SERVERS")
	redis := "redis"
	if _, err := exec.LookPath("redis-server"); err != nil {
		redis = "valkey"
	}
	need(t, redis+"-server", "SASH_REDIS")
	need(t, redis+"-cli", "SASH_REDIS")
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	h := &hour{t: t, dir: t.TempDir()}
	there := []string{"git clone -q https://github.com/seed-30da4c49/sash ../sash", ":", "../sash", top,
		"redis-server ", redis + "-server ", "redis-cli ", redis + "-cli "}
	var back []string
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:6379"} {
		free := freeAddress(t)
		there, back = append(there, address, free), append(back, free, address)
		if port, ofRedis := strings.CutPrefix(address, "127.0.0.1:6"); ofRedis {
			there = append(there, "6"+port, strings.TrimPrefix(free, "127.0.0.1:")) // in commands of Redis
		}
	}
	h.there, h.back = strings.NewReplacer(there...), strings.NewReplacer(back...)
	for module, requires := range map[string]string{
		"sashprometheus":        "github.com/prometheus/client_golang",
		"sashredis/goredisconn": "github.com/redis/go-redis/v9",
	} {
		mod, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
		require.NoError(t, err)
		version := regexp.MustCompile(requires + ` (v\S+)`).FindSubmatch(mod)
		require.NotNil(t, version, module)
		h.pinned += fmt.Sprintf("go mod edit -require=%s@%s\n", requires, version[1])
	}
	t.Cleanup(func() {
		for _, s := range h.servers {
			s.kill()
		}
	})
	return h
}

// need skips the test if there is no such program, unless the environment requires it.
func need(t *testing.T, program, variable string) {
	t.Helper()
	_, err := exec.LookPath(program)
	if err != nil && os.Getenv(variable) == "required" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// write writes the file of a Go block, whose first line names it.
func (h *hour) write(b block) {
	h.t.Helper()
	text := h.there.Replace(b.text)
	first, _, _ := strings.Cut(text, "\n")
	name, named := strings.CutPrefix(first, "// ")
	require.True(h.t, named, "line %d: no name of a file", b.line)
	require.NoFileExists(h.t, filepath.Join(h.dir, name), "line %d", b.line)
	require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600))
}

// change applies a diff, whose first line names the file. The lines that each part of it shows are there exactly once.
func (h *hour) change(b block) {
	h.t.Helper()
	first, diff, _ := strings.Cut(b.text, "\n")
	path := filepath.Join(h.dir, strings.TrimPrefix(first, " // "))
	text, err := os.ReadFile(path)
	require.NoError(h.t, err, "line %d", b.line)
	for part := range strings.SplitSeq(diff, "@@\n") {
		var before, after string
		for line := range strings.Lines(part) {
			switch rest := line[1:]; line[0] {
			case '-':
				before += rest
			case '+':
				after += rest
			case ' ':
				before, after = before+rest, after+rest
			default:
				h.t.Fatalf("line %d: neither a change nor a line with a space: %q", b.line, line)
			}
		}
		require.Equal(h.t, 1, strings.Count(string(text), before), "line %d: in %s:\n%s", b.line, path, before)
		text = []byte(strings.Replace(string(text), before, after, 1))
	}
	require.NoError(h.t, os.WriteFile(path, text, 0o600))
	out, err := exec.Command("gofmt", "-l", path).CombinedOutput()
	require.NoError(h.t, err)
	require.Empty(h.t, string(out), "line %d: gofmt would change it", b.line)
}

var serves = regexp.MustCompile(`^(\w+=\S+ )*(go run \.|redis-server .*)\n$`)

// run runs the commands of a block. A server goes on in a terminal of its own.
func (h *hour) run(b block) {
	h.t.Helper()
	commands := h.there.Replace(b.text)
	if serves.MatchString(b.text) {
		h.servers = append(h.servers, h.startServer(commands))
		h.printed = ""
		return
	}
	commands = strings.ReplaceAll(commands, "go mod tidy\n", h.pinned+"go mod tidy\n")
	c := exec.CommandContext(h.t.Context(), "bash", "-e", "-o", "pipefail", "-c", commands)
	c.Dir, c.WaitDelay = h.dir, time.Second
	out, err := c.CombinedOutput()
	require.NoError(h.t, err, "line %d: %s%s", b.line, commands, out)
	if _, dir, moves := strings.Cut(b.text, "cd "); moves {
		dir, _, _ = strings.Cut(dir, "\n")
		h.dir = filepath.Join(h.dir, dir)
	}
	h.printed = string(out)
}

// compare compares what the page shows with what the last command has printed. If that is nothing, or was compared
// before, it is what the server in the first terminal prints next, and ^C is typed there.
func (h *hour) compare(b block) {
	h.t.Helper()
	if h.printed != "" {
		require.Equal(h.t, masked(b.text), masked(h.back.Replace(h.printed)), "line %d", b.line)
		h.printed = ""
		return
	}
	require.NotEmpty(h.t, h.servers, "line %d", b.line)
	s := h.servers[0]
	running, rest, interrupted := strings.Cut(b.text, "^C\n")
	for line := range strings.Lines(running) {
		require.Equal(h.t, masked(line), masked(h.back.Replace(s.next())), "line %d", b.line)
	}
	if interrupted {
		require.Equal(h.t, sorted(rest), sorted(h.back.Replace(s.end())), "line %d", b.line)
		h.servers = h.servers[1:]
	}
}

// varying is what differs from run to run: times of day, waits, the order of workers, how long a test takes.
var varying = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d|(?:Retry-After: |;t=)(?:60|5\d)\b|Date: .*|report \d |\d+\.\d+s`)
var blank = regexp.MustCompile(`(?m)[ \r]+$`)

// masked returns text with # for what varies, without the blanks at the ends of lines.
func masked(text string) string {
	return varying.ReplaceAllString(blank.ReplaceAllString(text, ""), "#")
}

// sorted returns masked lines in their order, as goroutines print them in any.
func sorted(text string) []string {
	return slices.Sorted(strings.Lines(masked(text)))
}

// endServers ends a step: it types Ctrl-C in the terminals of all servers.
func (h *hour) endServers() {
	h.t.Helper()
	for _, s := range h.servers {
		s.end()
	}
	h.servers = nil
}

// A server is a program in a terminal of its own.
type server struct {
	t     *testing.T
	c     *exec.Cmd
	out   *os.File
	lines *bufio.Reader
	shown []string // what next has not returned
}

// startServer starts a server, and waits until it says that it listens.
func (h *hour) startServer(command string) *server {
	h.t.Helper()
	out, theirs, err := os.Pipe()
	require.NoError(h.t, err)
	s := &server{t: h.t, c: exec.Command("bash", "-c", "exec env "+command), out: out, lines: bufio.NewReader(out)}
	s.c.Dir, s.c.Stdout, s.c.Stderr = h.dir, theirs, theirs
	s.c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what Ctrl-C interrupts
	require.NoError(h.t, s.c.Start())
	theirs.Close()
	require.NoError(h.t, out.SetReadDeadline(time.Now().Add(patience)))
	for {
		line := s.read()
		s.shown = append(s.shown, line)
		if strings.Contains(line, "listening on") || strings.Contains(line, "Ready to accept connections") {
			return s
		}
	}
}

// read waits for the next line.
func (s *server) read() string {
	s.t.Helper()
	line, err := s.lines.ReadString('\n')
	if err != nil {
		s.kill()
		require.NoError(s.t, err, "%s: %s%s", s.c, strings.Join(s.shown, ""), line)
	}
	return line
}

// next returns the next line that has not been compared.
func (s *server) next() string {
	s.t.Helper()
	if len(s.shown) == 0 {
		return s.read()
	}
	line := s.shown[0]
	s.shown = s.shown[1:]
	return line
}

// end types Ctrl-C, and returns what the server prints until it has ended.
func (s *server) end() string {
	s.t.Helper()
	_ = syscall.Kill(-s.c.Process.Pid, syscall.SIGINT) // it may have ended
	var rest strings.Builder
	for {
		line, err := s.lines.ReadString('\n')
		rest.WriteString(line)
		if err != nil {
			break
		}
	}
	_ = s.c.Wait() // go run fails when it is interrupted, and says so if the program does
	require.NotContains(s.t, rest.String(), "exit status")
	s.out.Close()
	return rest.String()
}

// kill ends a server that the test has given up.
func (s *server) kill() {
	_ = syscall.Kill(-s.c.Process.Pid, syscall.SIGKILL)
}
