//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// interruptible puts a command into a process group of its own, all of which is interrupted when its context
// ends. go run and go test hand no signal on to the program that they run.
func interruptible(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
}
