//go:build unix

package redistest

import (
	"fmt"
	"syscall"
)

// pause stops a child of this process, and waits until it has stopped.
func pause(id int) error {
	if err := syscall.Kill(id, syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(id, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && !status.Stopped() {
			err = fmt.Errorf("the process has ended: %v", status)
		}
		return err
	}
}

func resume(id int) error { return syscall.Kill(id, syscall.SIGCONT) }
