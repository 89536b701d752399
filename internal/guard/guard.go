// Package guard kills a process that this process has started, once this process has ended, by whatever
// that was.
package guard

import (
	"fmt"
	"io"
	"os/exec"
)

// Process starts a guard of the process with that id. The guard is a process, which kills the other
// once the Closer is closed or this process has ended.
func Process(id int) (io.Closer, error) {
	guard := exec.Command("sh", "-c", fmt.Sprintf("read _; kill -9 %d", id))
	in, err := guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := guard.Start(); err != nil {
		return nil, err
	}
	return closer(func() error {
		err := in.Close()
		_ = guard.Wait() // the process may be gone already
		return err
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }
