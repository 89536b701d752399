//go:build !unix

package main

import "os/exec"

// interruptible does nothing here: a command is killed when its context ends.
func interruptible(*exec.Cmd) {}
