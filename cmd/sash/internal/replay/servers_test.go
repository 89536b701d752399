// A server ends by a signal that is of Unix.

//go:build unix

package replay

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server is a web server that the test starts.
type server struct {
	program string
	// config returns the text of the configuration, and the arguments to start the server in the
	// foreground. It may use the directory, and listens at the address.
	config func(dir, address, backend string) (text string, args []string)
	// stop ends the server after it has logged all requests.
	stop syscall.Signal
	logs []serverLog
}

// A serverLog is a log of a server and how it is read.
type serverLog struct {
	file   string
	format string // that the report says
	args   []string
	behind bool // whether clients are told by X-Forwarded-For
}

var servers = []server{
	{"nginx", nginxConfig, syscall.SIGQUIT, []serverLog{
		{file: "combined.log", format: "combined"},
		{file: "main.log", format: "combined"},
		{file: "main.log", format: "combined", args: []string{"-trust", "127.0.0.0/8"}, behind: true},
		{file: "times.log", format: "extended"},
		{file: "json.log", format: "json"},
		{file: "json.log", format: "json", args: []string{"-trust", "127.0.0.0/8"}, behind: true},
		{file: "own.log", format: nginxOwn, args: []string{"-format", nginxOwn}},
		{file: "pasted.log", format: nginxPasted, args: []string{"-format", "\t" + nginxDirective}},
	}},
	{"apache2", apacheConfig, syscall.SIGWINCH, []serverLog{
		{file: "common.log", format: "combined"},
		{file: "combined.log", format: "combined"},
		{file: "vhost.log", format: "vhost_combined"},
		{file: "times.log", format: "extended"},
		{file: "own.log", format: apacheOwn, args: []string{"-format", apacheOwn}},
		{file: "parts.log", format: apacheParts, args: []string{"-format", apacheDirective}},
	}},
	{"haproxy", haproxyConfig, syscall.SIGUSR1, []serverLog{{file: "output", format: "haproxy"}}},
	{"caddy", caddyConfig, syscall.SIGTERM, []serverLog{{file: "access.log", format: "json"}}},
}

const (
	nginxOwn  = `$msec|$status|$remote_addr|"$request"`
	apacheOwn = `%v %D %h %t "%r" %>s "%{User-Agent}i"`

	// nginxDirective and apacheDirective are what a configuration has, and what follows is the format in it.
	nginxDirective = `log_format pasted escape=json '{"when":"$time_iso8601",'
		'"ip":"$remote_addr","what":"$request",' '"agent":"$http_user_agent"}';`
	nginxPasted     = `{"when":"$time_iso8601","ip":"$remote_addr","what":"$request","agent":"$http_user_agent"}`
	apacheDirective = `LogFormat "%{%d/%b/%Y:%T}t.%{usec_frac}t%{%z}t %a %u \
\"%r\" %D \"%{User-Agent}i\"" parts`
	apacheParts = `%{%d/%b/%Y:%T}t.%{usec_frac}t%{%z}t %a %u "%r" %D "%{User-Agent}i"`
)

func nginxConfig(dir, address, _ string) (string, []string) {
	text := `daemon off; worker_processes 1; pid DIR/pid; error_log DIR/error.log;
events { worker_connections 64; }
http {
	client_body_temp_path DIR; proxy_temp_path DIR; fastcgi_temp_path DIR; uwsgi_temp_path DIR; scgi_temp_path DIR;
	log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"';
	log_format times '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time "$http_referer" "$http_user_agent"';
	log_format json escape=json '{"msec":$msec,"remote_addr":"$remote_addr","request":"$request","status":$status,"http_user_agent":"$http_user_agent","http_x_forwarded_for":"$http_x_forwarded_for"}';
	log_format own '` + nginxOwn + `';
	` + nginxDirective + `
	access_log DIR/pasted.log pasted;
	access_log DIR/combined.log; access_log DIR/main.log main; access_log DIR/times.log times; access_log DIR/json.log json; access_log DIR/own.log own;
	server { listen ADDRESS; location / { return 200 "hello"; } }
}
`
	return placed(text, dir, address, ""), []string{"-e", dir + "/error.log", "-c", dir + "/config"}
}

func apacheConfig(dir, address, _ string) (string, []string) {
	const modules = "/usr/lib/apache2/modules"
	text := `ServerRoot DIR
ServerName www.example.com
Listen ADDRESS
PidFile DIR/pid
Mutex file:DIR
ErrorLog DIR/error.log
LoadModule mpm_event_module ` + modules + `/mod_mpm_event.so
LoadModule authz_core_module ` + modules + `/mod_authz_core.so
DocumentRoot DIR
LogFormat "%h %l %u %t \"%r\" %>s %O" common
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost
LogFormat "%h %l %u %t \"%r\" %>s %O %D \"%{User-Agent}i\"" times
LogFormat "` + strings.ReplaceAll(apacheOwn, `"`, `\"`) + `" own
` + apacheDirective + `
CustomLog DIR/parts.log parts
CustomLog DIR/common.log common
CustomLog DIR/combined.log combined
CustomLog DIR/vhost.log vhost
CustomLog DIR/times.log times
CustomLog DIR/own.log own
`
	return placed(text, dir, address, ""), []string{"-D", "FOREGROUND", "-f", dir + "/config"}
}

func haproxyConfig(dir, address, backend string) (string, []string) {
	// A line was once missing from its output. One thread has no other to compete with.
	text := `global
	nbthread 1
	log stdout format raw local0
defaults
	mode http
	log global
	option httplog
	timeout connect 5s
	timeout client 5s
	timeout server 5s
frontend in
	bind ADDRESS
	capture request header User-Agent len 64
	default_backend out
backend out
	server one BACKEND
`
	return placed(text, dir, address, backend), []string{"-db", "-f", dir + "/config"}
}

func caddyConfig(dir, address, _ string) (string, []string) {
	text := `{
	admin off
	auto_https off
}
http://ADDRESS {
	log {
		output file DIR/access.log
	}
	respond "hello"
}
`
	return placed(text, dir, address, ""), []string{"run", "--adapter", "caddyfile", "--config", dir + "/config"}
}

func placed(text, dir, address, backend string) string {
	return strings.NewReplacer("DIR", dir, "ADDRESS", address, "BACKEND", backend).Replace(text)
}

const first = "127.0.0.9"

// requests are the numbers of requests of each client. Clients have addresses of this machine,
// and come through a proxy in the words of X-Forwarded-For.
//
// The client first is the one that finds the server started.
var requests = map[string]int{first: 1, "127.0.0.1": 3, "127.0.0.2": 7, "127.0.0.3": 1, "127.0.0.44": 12}

// agents are what real clients and attackers send: the server escapes them in its own way.
var agents = []string{"curl/8.0", `say "hi" \ \\`, "Mozilla/5.0 (X11; [1] {2})", "", "ünïcode", `"`, `\`, `","remote_addr":"203.0.113.1`}

// Logs of real servers are read to the last line, with the right clients.
func TestServers_LogsAreRead(t *testing.T) {
	for _, s := range servers {
		t.Run(s.program, func(t *testing.T) {
			path, err := exec.LookPath(s.program)
			if err != nil && os.Getenv("SASH_SERVERS") == "required" {
				t.Fatal(err)
			} else if err != nil {
				t.Skip(err)
			}
			dir := s.serve(t, path)
			for _, l := range s.logs {
				args := append(l.args, "-json", "-top", "9", "-limit", "2/24h log", filepath.Join(dir, l.file))
				got := invoke("", args...)
				r := got.report(t)
				require.NotEmpty(t, r.Limits, "%s %s", l.file, got.stderr)
				served := map[string]int64{}
				denied := map[string]int64{}
				for _, d := range r.Limits[0].Top {
					served[d.Client], denied[d.Client] = d.Events, d.Denied
				}
				for client, n := range requests {
					if l.behind {
						client = strings.Replace(client, "127.0.0", "198.51.100", 1)
					}
					if n > 2 {
						assert.EqualValues(t, n, served[client], "%s of %s", client, l.file)
						assert.EqualValues(t, n-2, denied[client], "%s of %s", client, l.file)
					}
				}
				assert.Equal(t, len(requests), r.Clients, l.file)
				assert.EqualValues(t, 24, r.Events, l.file)
				if l.file != "output" { // in which HAProxy says that it starts and ends
					assert.Empty(t, r.UnreadableLines, l.file)
				}
				assert.Equal(t, l.format, r.Formats[0].Format, l.file)
			}
		})
	}
}

// serve starts the server, sends it all requests, ends it, and returns the directory of its logs.
func (s *server) serve(t *testing.T, path string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // its workers may be other users
	require.NoError(t, os.Chmod(dir, 0o777))
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer backend.Close()
	address := freeAddress(t)
	text, args := s.config(dir, address, backend.Listener.Addr().String())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), []byte(text), 0o600))
	output, err := os.Create(filepath.Join(dir, "output"))
	require.NoError(t, err)
	defer output.Close()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cmd.Process.Signal(s.stop)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
	}()
	s.await(t, address, ended, output.Name())
	i := 0
	for client, n := range requests {
		for range n {
			if client == first {
				continue
			}
			require.NoError(t, get(t, address, client, agents[i%len(agents)]))
			i++
		}
	}
	return dir
}

// await sends the request of the first client as soon as the server accepts connections.
func (s *server) await(t *testing.T, address string, ended <-chan error, output string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := get(t, address, first, agents[0])
		if err == nil {
			return
		}
		select {
		case err = <-ended:
		default:
			if time.Now().Before(deadline) {
				continue
			}
		}
		text, _ := os.ReadFile(output)
		t.Fatalf("%s does not start: %v\n%s", s.program, err, text)
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

// get sends a request from the address of a client.
func get(t *testing.T, address, client, agent string) error {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/?a=%%22b", address), nil)
	require.NoError(t, err)
	r.Header.Set("User-Agent", agent)
	r.Header.Set("X-Forwarded-For", strings.Replace(client, "127.0.0", "203.0.113.9, 198.51.100", 1))
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
