package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-30da4c49/sash/internal/guard"
)

// errNoServer is returned by startServer if there is no server to start.
var errNoServer = errors.New("neither redis-server nor valkey-server is in PATH")

// A server is a Redis or Valkey server on a unix socket, which keeps nothing on disk.
type server struct {
	dir, socket string
	cmd         *exec.Cmd
	ended       chan struct{} // closed once cmd has ended
	guard       io.Closer     // of the process that kills cmd if this process is killed
	admin       *redis.Client // asks what is no part of a measurement
}

// startServer starts a server and waits until it answers.
func startServer(ctx context.Context) (*server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		binary, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return nil, errNoServer
	}
	dir, err := os.MkdirTemp("", "sash") // its path must be short enough for a socket
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, socket: filepath.Join(dir, "s"), ended: make(chan struct{})}
	log := filepath.Join(dir, "log")
	s.cmd = exec.Command(binary, "--port", "0", "--unixsocket", s.socket, "--dir", dir, "--logfile", log,
		"--save", "", "--appendonly", "no")
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		_ = s.cmd.Wait() // says that it was killed
		close(s.ended)
	}()
	s.admin = redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, PoolSize: 1})
	if s.guard, err = guard.Process(s.cmd.Process.Pid); err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		text, _ := os.ReadFile(log)
		return nil, errors.Join(fmt.Errorf("starting %s: %w\n%s", binary, err, text), s.stop())
	}
	return s, nil
}

// ready waits until s answers.
func (s *server) ready(ctx context.Context) error {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := s.admin.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("it has ended")
		default:
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// stop ends the server and removes its files.
func (s *server) stop() error {
	err := s.admin.Close()
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
	if s.guard != nil {
		err = errors.Join(err, s.guard.Close())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// clear removes all keys.
func (s *server) clear(ctx context.Context) error { return s.admin.FlushAll(ctx).Err() }

// A meter is what a server has done so far.
type meter struct {
	cpu      float64 // microseconds
	commands float64 // also those that scripts call
	scripts  float64 // microseconds in EVALSHA
	memory   float64 // bytes
	version  string
}

// read reads the meter of s.
func (s *server) read(ctx context.Context) (m meter, err error) {
	text, err := s.admin.Info(ctx, "all").Result()
	if err != nil {
		return m, err
	}
	number := func(value string) float64 {
		x, fault := strconv.ParseFloat(value, 64)
		err = errors.Join(err, fault)
		return x
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_user", "used_cpu_sys":
			m.cpu += 1e6 * number(value)
		case "used_memory":
			m.memory = number(value)
		case "redis_version", "valkey_version":
			m.version = strings.TrimSuffix(name, "_version") + " " + value
		case "cmdstat_info": // the command of this function
		default:
			if strings.HasPrefix(name, "cmdstat_") { // calls=1,usec=2,...
				calls, rest, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				m.commands += number(calls)
				if name == "cmdstat_evalsha" {
					micros, _, _ := strings.Cut(strings.TrimPrefix(rest, "usec="), ",")
					m.scripts = number(micros)
				}
			}
		}
	}
	return m, err
}
