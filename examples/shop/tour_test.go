//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root     = "../.."
	patience = 30 * time.Second // with each step, which takes a few seconds
)

var pictures = flag.String("pictures", "", "write the pictures of the page to this `directory`, by chromium")

// The last part of docs/operators.md works with real servers. All its commands run in one shell, and print the
// output that the page shows, but for the figures. Then Prometheus counts their effects. The pictures are made by
//
//	go test ./examples/shop -run Tour -pictures "$PWD/docs"
func TestTour(t *testing.T) {
	u := startTour(t)
	stages := []struct {
		after string // a part of the commands
		check func()
	}{
		{"nginx -p", u.serversListen},
		{"./play", func() {}},
		{"./shop -policies", u.shopHasLimits},
		{"./play", u.shadowDeniesNothing},
		{"shadow: false", u.shopFollows},
		{"./play", u.attackersAreDenied},
		{"limit:", u.faultIsRefused},
		{"# and the alert ends", u.shopIsRepaired},
	}
	for _, b := range section(t, "with real servers") {
		got := u.run(b.commands)
		t.Logf("%s%s", b.commands, got)
		for part := range strings.SplitSeq(b.output, "…\n") {
			assert.Contains(t, "\n"+masked(got), "\n"+masked(part), b.commands)
		}
		if len(stages) > 0 && strings.Contains(b.commands, stages[0].after) {
			stages[0].check()
			stages = stages[1:]
		}
	}
	require.Empty(t, stages, "the page does not have these commands in this order")
}

// A block has commands of the page, and the output that it shows for them, if any.
type block struct{ commands, output string }

var fenced = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

// section returns the blocks of the section of the page whose heading ends so.
func section(t *testing.T, heading string) (blocks []block) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/operators.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), heading+"\n")
	require.True(t, found, heading)
	text, _, _ = strings.Cut(text, "\n## ")
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		if m[1] == "sh" {
			blocks = append(blocks, block{commands: m[2]})
		} else {
			blocks[len(blocks)-1].output = m[2]
		}
	}
	return blocks
}

var figures = regexp.MustCompile(` *\d[\d,.:-]*`)

// masked returns text without its figures and the spaces before them.
func masked(text string) string { return figures.ReplaceAllString(text, " #") }

// A tour is a shell that runs the commands of the page, beginning in the root of the repository. Its servers listen
// at addresses that are free, and the files in examples/shop/run are in a directory of the test.
type tour struct {
	t                                *testing.T
	dir                              string            // for examples/shop/run
	replaced                         *strings.Replacer // directories and addresses in commands
	nginx, shop, metrics, prometheus string            // addresses

	in, out *os.File // of the shell
	lines   *bufio.Reader
}

func startTour(t *testing.T) *tour {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	need(t, "nginx", "SASH_SERVERS")
	need(t, "prometheus", "SASH_PROMETHEUS")
	u := &tour{t: t, nginx: freeAddress(t), shop: freeAddress(t), metrics: freeAddress(t), prometheus: freeAddress(t)}
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	tree := t.TempDir() // a repository, as far as the commands look at it from examples/shop/run
	u.dir = filepath.Join(tree, "examples/shop/run")
	require.NoError(t, os.MkdirAll(u.dir, 0o700))
	for _, name := range []string{"cmd", "sashprometheus"} {
		require.NoError(t, os.Symlink(filepath.Join(top, name), filepath.Join(tree, name)))
	}
	configured := strings.NewReplacer("127.0.0.1:8080", u.nginx, "127.0.0.1:8081", u.shop, "127.0.0.1:8082", u.metrics)
	for _, name := range []string{"nginx.conf", "prometheus.yml"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(u.dir, "..", name), []byte(configured.Replace(string(text))), 0o600))
	}
	u.replaced = strings.NewReplacer("-o run/", "-o "+u.dir+"/", "cd run", "cd "+u.dir,
		"./play ", "./play -server "+u.nginx+" ", "./shop ", "./shop -addr "+u.shop+" -metrics "+u.metrics+" ",
		"127.0.0.1:9090", u.prometheus, "prometheus ", "prometheus --web.listen-address="+u.prometheus+" ")

	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", bin, "../../cmd/sash").CombinedOutput()
	require.NoError(t, err, string(out))
	u.startShell(top, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")))
	return u
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

// startShell starts the shell. At the end of its input it ends, and the servers with it. So they also end if the
// test is killed.
func (u *tour) startShell(dir string, environment []string) {
	theirIn, in, err := os.Pipe()
	require.NoError(u.t, err)
	out, theirOut, err := os.Pipe()
	require.NoError(u.t, err)
	u.in, u.out, u.lines = in, out, bufio.NewReader(out)
	shell := exec.Command("bash")
	shell.Dir, shell.Env = dir, environment
	shell.Stdin, shell.Stdout, shell.Stderr = theirIn, theirOut, theirOut
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a group of the shell and the servers
	require.NoError(u.t, shell.Start())
	theirIn.Close()
	theirOut.Close()
	u.t.Cleanup(func() {
		in.Close()
		_ = shell.Wait()
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		out.Close()
	})
	u.run("set -e; trap 'kill $(jobs -p)' EXIT\n")
}

// run runs commands of the page, and returns what they print. The shell ends if one fails.
func (u *tour) run(commands string) string {
	u.t.Helper()
	const end = "the commands have ended\n"
	_, err := fmt.Fprintf(u.in, "%s\necho '%s'\n", u.replaced.Replace(commands), strings.TrimSpace(end))
	require.NoError(u.t, err)
	require.NoError(u.t, u.out.SetReadDeadline(time.Now().Add(4*patience)))
	var printed strings.Builder
	for {
		line, err := u.lines.ReadString('\n')
		if line == end {
			return printed.String()
		}
		printed.WriteString(line)
		require.NoError(u.t, err, "%s%s", commands, &printed)
	}
}

// serversListen waits until requests can be played. Prometheus takes longer, and is not needed for that.
func (u *tour) serversListen() {
	for _, address := range []string{u.nginx, u.shop} {
		u.await(address, func() bool {
			c, err := net.Dial("tcp", address) // and sends nothing, which would be in the log
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
}

func (u *tour) shopHasLimits() { u.awaitTrue(`sash_policy_reloads_total{result="loaded"} == 1`) }

func (u *tour) shadowDeniesNothing() {
	u.await("Prometheus counts the logins that nginx has logged", func() bool {
		logins, _ := u.logged()
		return u.isTrue(fmt.Sprintf("sum(sash_decisions_total) == %d", logins/2)) // the first half had no policy
	})
	_, denied := u.logged()
	require.Empty(u.t, denied)
	u.awaitTrue(`sum(sash_decisions_total{policy="failed logins",result="shadow_denied"}) > 2000`)
	u.awaitTrue(`absent(sash_decisions_total{result="denied"} > 0)`)
}

func (u *tour) shopFollows() { u.awaitTrue(`sash_policy_reloads_total{result="loaded"} == 2`) }

func (u *tour) attackersAreDenied() {
	u.await("Prometheus counts the denials that nginx has logged", func() bool {
		logins, denied := u.logged()
		sum := 0
		for _, n := range denied {
			sum += n
		}
		return u.isTrue(fmt.Sprintf("sum(sash_decisions_total) == %d", logins*2/3)) &&
			u.isTrue(fmt.Sprintf(`sum(sash_decisions_total{policy="failed logins",result="denied"}) == %d`, sum))
	})
	_, denied := u.logged()
	require.Equal(u.t, []string{"203.0.113.66", "203.0.113.67", "203.0.113.68"}, slices.Sorted(maps.Keys(denied)))
	u.awaitTrue(`sum(sash_decisions_total{policy="failed logins",result="denied"}) > 2000`)
}

const refused = `ALERTS{alertname="SashPoliciesRefused",alertstate="pending"}`

func (u *tour) faultIsRefused() {
	u.awaitTrue(`sash_policy_reloads_total{result="failed"} == 1`)
	u.awaitTrue(refused)
	u.takePicture("operators-alerts.png", "/classic/alerts", 386)
	u.takePicture("operators-denied.png", "/classic/graph?g0.tab=0&g0.range_input=30s&g0.expr="+
		url.QueryEscape(`sum by (policy, result) (rate(sash_decisions_total{result=~"denied|shadow_denied"}[5s]))`), 822)
}

func (u *tour) shopIsRepaired() {
	u.awaitTrue(`sash_policy_reloads_total{result="loaded"} == 3`)
	u.awaitTrue("absent(" + refused + ")")
}

// logged returns how many logins nginx has logged so far, and how many requests of each client that were answered
// with 429.
func (u *tour) logged() (logins int, denied map[string]int) {
	u.t.Helper()
	file, err := os.Open(filepath.Join(u.dir, "access.log"))
	require.NoError(u.t, err)
	defer file.Close()
	denied = make(map[string]int)
	for d := json.NewDecoder(file); ; {
		var line struct {
			Request string
			Status  int
			Client  string `json:"http_x_forwarded_for"`
		}
		err := d.Decode(&line)
		if err == io.EOF {
			return logins, denied
		}
		require.NoError(u.t, err)
		if strings.HasPrefix(line.Request, "POST /login ") {
			logins++
		}
		if line.Status == http.StatusTooManyRequests {
			denied[line.Client]++
		}
	}
}

// awaitTrue waits until a query of Prometheus has a result.
func (u *tour) awaitTrue(query string) {
	u.t.Helper()
	u.await(query, func() bool { return u.isTrue(query) })
}

// isTrue reports whether a query of Prometheus has a result.
func (u *tour) isTrue(query string) bool {
	answer, err := http.Get("http://" + u.prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var body struct{ Data struct{ Result []any } }
	return json.NewDecoder(answer.Body).Decode(&body) == nil && len(body.Data.Result) > 0
}

// await waits until a condition holds.
func (u *tour) await(what string, holds func() bool) {
	u.t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-poll.C {
		require.True(u.t, time.Now().Before(deadline), "never: %s\n%s", what, u.logs())
	}
}

// logs returns the logs of the servers, without the requests.
func (u *tour) logs() string {
	var all strings.Builder
	for _, name := range []string{"error.log", "prometheus.log", "shop.log"} {
		text, _ := os.ReadFile(filepath.Join(u.dir, name)) // it may not be there yet
		fmt.Fprintf(&all, "%s:\n%s", name, text)
	}
	return all.String()
}

// takePicture takes a picture of a page of Prometheus if the flag asks for pictures.
func (u *tour) takePicture(name, path string, height int) {
	u.t.Helper()
	if *pictures == "" {
		return
	}
	out, err := exec.Command("chromium", "--headless", "--no-sandbox", "--hide-scrollbars", fmt.Sprintf("--window-size=1000,%d", height),
		"--virtual-time-budget=10000", "--user-data-dir="+u.t.TempDir(), "--screenshot="+filepath.Join(*pictures, name),
		"http://"+u.prometheus+path).CombinedOutput()
	require.NoError(u.t, err, string(out))
}
