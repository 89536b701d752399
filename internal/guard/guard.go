// Package guard ends processes that this one has started, whatever ends this one.
package guard

import (
	"fmt"
	"io"
	"os/exec"
)

// Process makes another process kill the process with that id once the Closer is closed or this
// process is gone.
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
