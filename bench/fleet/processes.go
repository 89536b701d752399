package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash/sashredis"
)

// workerEnv is set in a process that is one of a fleet.
const workerEnv = "SASH_FLEET_WORKER"

// A job is what a process of a fleet does.
type job struct {
	Subject string
	Socket  string
	Quota   quota
	Callers int
	Lasts   time.Duration
	// Bursts is the time between bursts. In a burst, every caller calls until it is denied.
	// 0: callers call all the time, with a short pause after each denial.
	Bursts time.Duration
}

// A result is what a process of a fleet has seen.
type result struct {
	Calls, Failed int64
	Admissions    []admission
	Stats         sashredis.Stats
	Err           string
}

const (
	fleetKey = "fleet"
	// afterDenial is the pause of a caller after a denial, if it calls all the time.
	afterDenial = time.Millisecond
)

// work is the program of a process of a fleet. It reads a job, connects, says that it is ready,
// waits for a line, and writes its result.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var j job
	if err := readLine(lines, &j); err != nil {
		return err
	}
	s, ok := named(forFleet(), j.Subject)
	if !ok {
		return fmt.Errorf("there is no %q", j.Subject)
	}
	c, err := s.open(&wire{socket: j.Socket}, j.Quota)
	if err != nil {
		return err
	}
	if _, err := c.take("warm"); err != nil {
		return errors.Join(err, c.close())
	}
	if _, err := fmt.Fprintln(out, "{}"); err != nil {
		return errors.Join(err, c.close())
	}
	var begin int64
	if err := readLine(lines, &begin); err != nil {
		return errors.Join(err, c.close())
	}
	r := j.run(c, time.Unix(0, begin))
	if err := c.close(); err != nil {
		return err
	}
	if c.stats != nil {
		r.Stats = c.stats()
	}
	return json.NewEncoder(out).Encode(r)
}

func readLine(lines *bufio.Reader, to any) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, to)
}

// run runs the callers of a process from begin on.
func (j job) run(c *client, begin time.Time) (total result) {
	time.Sleep(time.Until(begin))
	all := make([]result, j.Callers)
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() { all[i] = j.calls(c, begin) })
	}
	done.Wait()
	for _, r := range all {
		total.Calls += r.Calls
		total.Failed += r.Failed
		total.Admissions = append(total.Admissions, r.Admissions...)
		if r.Err != "" {
			total.Err = r.Err
		}
	}
	return total
}

// calls makes the calls of one caller. There is at least one.
func (j job) calls(c *client, begin time.Time) (r result) {
	for round := time.Duration(1); r.Calls == 0 || time.Since(begin) < j.Lasts; {
		before := time.Now()
		yes, err := c.take(fleetKey)
		r.Calls++
		switch {
		case err != nil:
			r.Failed++
			r.Err = err.Error()
		case yes:
			r.Admissions = append(r.Admissions, admission{before.UnixNano(), time.Now().UnixNano()})
			continue
		}
		if j.Bursts == 0 {
			time.Sleep(afterDenial)
		} else {
			time.Sleep(time.Until(begin.Add(round * j.Bursts)))
			round++
		}
	}
	return r
}

// A worker is a process of a fleet, as its parent sees it.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

// startWorker starts a process for j. It ends with ctx, and with this process.
func startWorker(ctx context.Context, j job) (*worker, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, path)}
	w.cmd.Env = append(os.Environ(), workerEnv+"=1")
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.lines = bufio.NewReader(out)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(w.in).Encode(j); err != nil {
		return nil, errors.Join(err, w.end())
	}
	return w, nil
}

// ready waits until the process is ready.
func (w *worker) ready() error {
	var none struct{}
	return readLine(w.lines, &none)
}

// begin lets the process begin at an instant.
func (w *worker) begin(at time.Time) error { return json.NewEncoder(w.in).Encode(at.UnixNano()) }

// result waits for the result.
func (w *worker) result() (r result, err error) { return r, readLine(w.lines, &r) }

func (w *worker) end() error {
	return errors.Join(w.in.Close(), w.cmd.Wait())
}

// runFleet runs j in that many processes at once, and returns all that they have seen.
func runFleet(ctx context.Context, j job, processes int) (total result, err error) {
	var workers []*worker
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.end())
		}
	}()
	for range processes {
		w, err := startWorker(ctx, j)
		if err != nil {
			return total, err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		if err := w.ready(); err != nil {
			return total, fmt.Errorf("a process of %s did not start: %w", j.Subject, err)
		}
	}
	// In the middle of an aligned window: those that begin with a call begin there.
	at := time.Now().Add(20 * time.Millisecond).Truncate(j.Quota.Window).Add(j.Quota.Window / 2)
	if time.Until(at) < 10*time.Millisecond {
		at = at.Add(j.Quota.Window)
	}
	for _, w := range workers {
		if err := w.begin(at); err != nil {
			return total, err
		}
	}
	for _, w := range workers {
		r, err := w.result()
		if err != nil {
			return total, fmt.Errorf("a process of %s gave no result: %w", j.Subject, err)
		}
		total.Calls += r.Calls
		total.Failed += r.Failed
		total.Admissions = append(total.Admissions, r.Admissions...)
		total.Stats.Lease += r.Stats.Lease
		total.Stats.Leased += r.Stats.Leased
		total.Stats.Returned += r.Stats.Returned
		total.Stats.Mirror += r.Stats.Mirror
		total.Stats.Store += r.Stats.Store
		if r.Err != "" {
			total.Err = r.Err
		}
	}
	return total, nil
}
