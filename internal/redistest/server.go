// Package redistest starts Redis or Valkey servers for tests, and disturbs what they say.
//
// Its servers end with the test. They need redis-server or valkey-server in PATH. Without one,
// tests are skipped, unless the environment variable SASH_REDIS is "required".
package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash/internal/guard"
)

// patience is for how long a server may take to start or to reach a state.
const patience = 30 * time.Second

// A Server is a Redis or Valkey server. It is for use by one goroutine.
type Server struct {
	t      testing.TB
	binary string
	dir    string
	addr   string
	config []string // a file of options that goes first; none if empty
	args   []string
	cmd    *exec.Cmd     // nil: it is not started
	ended  chan struct{} // closed once cmd has ended
	guard  io.Closer     // of the process that guards cmd
}

// Start starts a server on a unix socket. It keeps nothing on disk, unless args, options of its
// command line, say so.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t)
	s.addr = filepath.Join(s.dir, "s")
	s.args = slices.Concat([]string{"--port", "0", "--unixsocket", s.addr}, nothingOnDisk, args)
	s.start()
	return s
}

// StartTCP starts a server on a port of the loopback interface.
func StartTCP(t testing.TB, args ...string) *Server {
	t.Helper()
	// Another process may take the port before the server does.
	for range 10 {
		s := newServer(t)
		port := freePort(t)
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		s.args = slices.Concat([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port)}, nothingOnDisk, args)
		if s.tryStart() == nil {
			return s
		}
	}
	t.Fatal("redistest: no server could be started on a port")
	return nil
}

// nothingOnDisk are the options of a server that keeps nothing on disk.
var nothingOnDisk = []string{"--save", "", "--appendonly", "no"}

// StartSentinel starts a Sentinel, alone, which watches primary under that name, and waits until it knows a replica.
// Once primary has not answered for half a second, the Sentinel makes a replica the primary.
func StartSentinel(t testing.TB, primary *Server, name string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.addr)
	for range 10 {
		s := newServer(t)
		own := freePort(t)
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(own))
		config := filepath.Join(s.dir, "sentinel.conf") // which it writes to
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %[2]s 500\nsentinel failover-timeout %[2]s 2000\n", own, name, host, port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.config, s.args = []string{config, "--sentinel"}, nil
		if s.tryStart() == nil {
			s.Until("SENTINEL knows a replica", func(ctx context.Context) bool {
				return s.says(ctx, "slaves=1", "INFO", "sentinel")
			})
			return s
		}
	}
	t.Fatal("redistest: no Sentinel could be started")
	return nil
}

// StartReplicated starts a primary with one replica, both on the loopback interface, and waits
// until the replica follows it.
func StartReplicated(t testing.TB, args ...string) (primary, replica *Server) {
	t.Helper()
	primary = StartTCP(t, append([]string{"--repl-diskless-sync-delay", "0"}, args...)...)
	host, port, _ := net.SplitHostPort(primary.addr)
	replica = StartTCP(t, append([]string{"--replicaof", host, port}, args...)...)
	replica.Until("INFO has master_link_status:up", func(ctx context.Context) bool {
		return replica.says(ctx, "master_link_status:up", "INFO", "replication")
	})
	return primary, replica
}

// StartCluster starts a cluster of three primaries on the loopback interface, and waits until
// each of them serves. The first has slots 0 to 5461, the second those to 10922, the third the
// rest.
func StartCluster(t testing.TB, args ...string) [3]*Server {
	t.Helper()
	var nodes [3]*Server
	for i := range nodes {
		nodes[i] = StartTCP(t, append([]string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes"}, args...)...)
	}
	next := 0
	for i, s := range nodes {
		add := []string{"CLUSTER", "ADDSLOTS"}
		for ; next < (i+1)*16384/3+1 && next < 16384; next++ {
			add = append(add, strconv.Itoa(next))
		}
		s.Command(add...)
		s.Command("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	host, port, _ := net.SplitHostPort(nodes[0].addr)
	for _, s := range nodes[1:] {
		s.Command("CLUSTER", "MEET", host, port)
	}
	for _, s := range nodes {
		s.Until("CLUSTER INFO tells of 3 nodes and all slots", func(ctx context.Context) bool {
			return s.says(ctx, "cluster_state:ok", "CLUSTER", "INFO") &&
				s.says(ctx, "cluster_known_nodes:3", "CLUSTER", "INFO") &&
				s.says(ctx, "cluster_size:3", "CLUSTER", "INFO")
		})
	}
	return nodes
}

// newServer returns a server that is not started.
func newServer(t testing.TB) *Server {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		binary, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// Not t.TempDir, whose paths may be too long for a socket.
		dir, err := os.MkdirTemp("", "sash")
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{t: t, binary: binary, dir: dir}
		t.Cleanup(func() {
			s.Kill()
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	if os.Getenv("SASH_REDIS") == "required" {
		t.Fatal("redistest: neither redis-server nor valkey-server is in PATH, and SASH_REDIS=required")
	}
	t.Skip("neither redis-server nor valkey-server is in PATH")
	return nil
}

// freePort returns a port that is free now, as is the port 10000 above it, which a cluster uses.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000) // below those that systems give to clients
		if isFree(port) && isFree(port+10000) {
			return port
		}
	}
	t.Fatal("redistest: no free port")
	return 0
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// start starts the server and waits until it answers.
func (s *Server) start() {
	s.t.Helper()
	if err := s.tryStart(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) tryStart() error {
	logfile := filepath.Join(s.dir, "log")
	s.cmd = exec.Command(s.binary, slices.Concat(s.config, []string{"--dir", s.dir, "--logfile", logfile}, s.args)...)
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // says that it was killed
		close(ended)
	}(s.cmd, s.ended)
	var err error
	if s.guard, err = guard.Process(s.cmd.Process.Pid); err != nil {
		s.stop()
		return err
	}
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		reply, err := command(ctx, s.addr, "PING")
		cancel()
		if err == nil && reply == "PONG" && s.runs() {
			return nil
		}
		if !s.runs() || time.Now().After(deadline) {
			text, _ := os.ReadFile(logfile)
			err := fmt.Errorf("redistest: %s does not start: %w\n%s", s.cmd, err, text)
			s.stop()
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// runs reports whether the process has not ended.
func (s *Server) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Addr returns the path of the server's unix socket, or its host and port.
func (s *Server) Addr() string { return s.addr }

// Network returns the network of Addr: "unix" or "tcp".
func (s *Server) Network() string { return network(s.addr) }

// Pause stops the process, and returns once it has stopped. Its connections stay open. The system
// goes on accepting new ones.
func (s *Server) Pause() {
	s.t.Helper()
	if err := pause(s.cmd.Process.Pid); err != nil {
		s.t.Fatalf("redistest: pausing the server: %v", err)
	}
}

// Resume lets the process go on after Pause.
func (s *Server) Resume() {
	s.t.Helper()
	if err := resume(s.cmd.Process.Pid); err != nil {
		s.t.Fatalf("redistest: resuming the server: %v", err)
	}
}

// Kill ends the process as a crash does. It does nothing if the process has been killed.
func (s *Server) Kill() {
	if s.cmd != nil {
		s.stop()
	}
}

func (s *Server) stop() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
	s.cmd = nil
	if s.guard != nil {
		_ = s.guard.Close()
		s.guard = nil
	}
}

// Restart kills the process, if it is not killed yet, and starts it again at the same address and
// with the same files.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.start()
}

// Command sends a command on a connection of its own, and returns the reply: a string, an int64,
// nil, or a []any of these. The test fails if there is none, or an error.
func (s *Server) Command(args ...string) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := s.Do(ctx, args...)
	if err != nil {
		s.t.Fatalf("redistest: %.50q: %v", args, err)
	}
	return reply
}

// Do is like Command but returns an error and leaves the test alone.
func (s *Server) Do(ctx context.Context, args ...string) (any, error) {
	return command(ctx, s.addr, args...)
}

// Until waits until holds returns true. What names the condition in the test's failure.
func (s *Server) Until(what string, holds func(ctx context.Context) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !holds(ctx) {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.t.Fatalf("redistest: not in %v: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// says reports whether the reply to a command has that text.
func (s *Server) says(ctx context.Context, text string, args ...string) bool {
	reply, err := s.Do(ctx, args...)
	got, ok := reply.(string)
	return err == nil && ok && strings.Contains(got, text)
}
