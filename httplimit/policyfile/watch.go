package policyfile

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/httplimit"
)

// Watch gives limiter the policies of the file at path each time that the file changes, until ctx is done. It
// is a [Watcher] with these options for [Load], and without any other setting:
//
//	go policyfile.Watch(ctx, "limits.yaml", limiter)
func Watch(ctx context.Context, path string, limiter *httplimit.Limiter, options ...Option) error {
	return (&Watcher{Options: options}).Watch(ctx, path, limiter)
}

// A Watcher keeps the policies of a limiter as a file has them. Its fields must not be changed while it
// watches. The zero Watcher is ready to use.
//
// It reads the file in each Interval, and so finds every change of its content, however it was made: written
// in place, renamed to, or by another target of a symbolic link, which is how Kubernetes changes a ConfigMap.
// No notification of the operating system is needed, which some file systems do not give.
//
// A change takes effect by [httplimit.Limiter.Reconfigure] once two readings in a row are the same, so a file
// is not read while it is being written. If the file has faults, is gone or cannot be read, the limiter keeps
// its policies. Each content is tried once.
type Watcher struct {
	// Options are the options for [Load]. WithPathFolding is added if the limiter has it.
	Options []Option

	// Interval is the time between two readings. A change takes effect after one to two of them. 0 or less
	// means one second. A reading opens the file and reads all of it.
	Interval time.Duration

	// Logger is told of each change at the level Info and, if the policies were kept, why at the level
	// Error. Nil means [slog.Default].
	Logger *slog.Logger

	// Observe is called after each change with nil, or with why the policies were kept: [Errors] of the file,
	// an error of package os, or one of Reconfigure. A method ObserveReload of Metrics suits. Nil means that
	// nothing is called.
	Observe func(err error)
}

// Watch gives limiter the policies of the file at path once, and then each time that the file changes. Policies
// that stay keep their counts; policies that are not in the file are gone. Watch blocks until ctx is done, and
// returns its error. It panics if limiter is nil.
//
// Two Watchers, or another caller of Reconfigure, must not change one limiter: the last to change holds.
func (w *Watcher) Watch(ctx context.Context, path string, limiter *httplimit.Limiter) error {
	if limiter == nil {
		panic("policyfile: Watch must not be given a nil Limiter")
	}
	interval := w.Interval
	if interval <= 0 {
		interval = time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last, tried *reading // nil: there is none yet
	for {
		now := read(path)
		if now.equal(last) && !now.equal(tried) {
			tried = now
			w.report(path, limiter, w.apply(path, now, limiter))
		}
		last = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// apply gives limiter the policies in what was read of a file.
func (w *Watcher) apply(path string, file *reading, limiter *httplimit.Limiter) error {
	if file.err != nil {
		return file.err
	}
	options := w.Options
	if limiter.FoldsPaths() {
		options = append(slices.Clip(options), WithPathFolding())
	}
	policies, err := Parse(path, file.data, options...)
	if err != nil {
		return err
	}
	return limiter.Reconfigure(policies...)
}

// report tells the logger and the observer how a change has ended.
func (w *Watcher) report(path string, limiter *httplimit.Limiter, err error) {
	logger := cmp.Or(w.Logger, slog.Default())
	if err == nil {
		logger.Info("limits are as the file has them", "file", path, "policies", len(limiter.Policies()))
	} else {
		logger.Error("limits stay as they were", "file", path, "error", err)
	}
	if w.Observe != nil {
		w.Observe(err)
	}
}

// A reading is what was read of a file at one time.
type reading struct {
	data []byte
	err  error // why it could not be read
}

// read reads the file at path.
func read(path string) *reading {
	data, err := contentOf(path)
	return &reading{data, err}
}

// equal reports whether r and o, which may be nil, are the same reading, or failed alike.
func (r *reading) equal(o *reading) bool {
	switch {
	case o == nil:
		return false
	case r.err != nil || o.err != nil:
		return r.err != nil && o.err != nil && r.err.Error() == o.err.Error()
	}
	return bytes.Equal(r.data, o.data)
}
