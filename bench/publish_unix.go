//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// interruptible makes the end of a command's context interrupt the command and each program that it runs. They
// are a process group, since go run and go test pass no signal on.
func interruptible(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
}
