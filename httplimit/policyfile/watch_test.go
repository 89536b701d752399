package policyfile_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// A watch is a Watcher that watches a file, in a bubble of testing/synctest, and what it has told.
type watch struct {
	t       *testing.T
	path    string
	limiter *httplimit.Limiter
	cancel  context.CancelFunc
	ended   chan error

	mu   sync.Mutex
	log  bytes.Buffer
	errs []error // of Observe
}

// Write writes to the log.
func (s *watch) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

func (s *watch) observe(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// told returns what was told since the last call: the errors, and the lines of the log.
func (s *watch) told() (errs []error, log string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs, log = s.errs, s.log.String()
	s.errs = nil
	s.log.Reset()
	return errs, log
}

// requireTold fails unless all changes since the last call have taken effect, and are in the log.
func (s *watch) requireTold(changes int) {
	s.t.Helper()
	errs, log := s.told()
	require.Equal(s.t, make([]error, changes), errs)
	require.Equal(s.t, changes, strings.Count(log, "limits are as the file has them"))
}

// startWatch watches a file of that name in a new directory, which has the content of file(0).
func startWatch(t *testing.T, w policyfile.Watcher, options ...httplimit.Option) *watch {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	s := &watch{t: t, path: path, ended: make(chan error, 1)}
	s.write(file(0))
	policies, err := policyfile.Load(path)
	require.NoError(t, err)
	s.limiter = httplimit.Must(httplimit.New(append(options, policies[0])...))
	w.Logger, w.Observe = slog.New(slog.NewTextHandler(s, nil)), s.observe
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	go func() { s.ended <- w.Watch(ctx, path, s.limiter) }()
	s.intervals(2)
	return s
}

// file returns a file whose only policy admits that many requests an hour more than one.
func file(more int) string {
	return fmt.Sprintf("policies: [{name: all, limits: %d/h log, key: everyone}]", 1+more)
}

func (s *watch) write(content string) {
	require.NoError(s.t, os.WriteFile(s.path, []byte(content), 0o600))
}

// intervals waits for that many default intervals, and until the Watcher has done what is due then.
func (s *watch) intervals(n int) {
	time.Sleep(time.Duration(n) * time.Second) // of the bubble
	synctest.Wait()
}

// more returns what the file had that the limiter has.
func (s *watch) more() int { return int(s.limiter.Policies()[0].Limits[0].Count) - 1 }

func (s *watch) stop() {
	s.cancel()
	require.ErrorIs(s.t, <-s.ended, context.Canceled)
	require.NoError(s.t, s.limiter.Close())
}

func TestWatch_AChangeTakesEffectAndCountsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWatch(t, policyfile.Watcher{})
		defer s.stop()
		admits := func() bool {
			return s.limiter.Decide(nil, httptest.NewRequest("GET", "/", nil)).Outcome == httplimit.Admitted
		}
		require.True(t, admits())
		require.False(t, admits())

		s.write(file(2))
		s.intervals(2)
		require.Equal(t, 2, s.more())
		require.True(t, admits())
		require.True(t, admits())
		require.False(t, admits(), "the first one still counts")

		renamed := s.path + ".new" // as editors do it
		require.NoError(t, os.WriteFile(renamed, []byte(file(3)), 0o600))
		require.NoError(t, os.Rename(renamed, s.path))
		s.intervals(2)
		require.Equal(t, 3, s.more())
		s.requireTold(3)
	})
}

// Kubernetes keeps the files of a ConfigMap in a directory, and changes a link to another one.
func TestWatch_FollowsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWatch(t, policyfile.Watcher{})
		defer s.stop()
		dir := filepath.Dir(s.path)
		version := func(n int) string {
			name := filepath.Join(dir, fmt.Sprint("..version", n))
			require.NoError(t, os.Mkdir(name, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(name, "limits.yaml"), []byte(file(n)), 0o600))
			return name
		}
		link := func(to, at string) {
			require.NoError(t, os.Symlink(to, at+".new"))
			require.NoError(t, os.Rename(at+".new", at))
		}
		data := filepath.Join(dir, "..data")
		link(version(1), data)
		link(filepath.Join(data, "limits.yaml"), s.path)
		s.intervals(2)
		require.Equal(t, 1, s.more())
		link(version(2), data)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "..version1")))
		s.intervals(2)
		require.Equal(t, 2, s.more())
		s.requireTold(3)
	})
}

// Faults are told once, and the policies stay.
func TestWatch_KeepsThePoliciesOfAFileWithFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWatch(t, policyfile.Watcher{})
		defer s.stop()
		s.write(file(1))
		s.intervals(2)
		s.requireTold(2)
		for _, faulty := range []string{"", "policies: [{name: all, limit: 1/h, key: everyone}]", "policies: []"} {
			s.write(faulty)
			s.intervals(10)
			require.Equal(t, 1, s.more())
			errs, log := s.told()
			require.Len(t, errs, 1)
			require.ErrorContains(t, errs[0], s.path)
			require.ErrorAs(t, errs[0], new(policyfile.Errors))
			require.Equal(t, 1, strings.Count(log, "limits stay as they were"))
			require.Contains(t, log, s.path)
		}

		require.NoError(t, os.Remove(s.path))
		s.intervals(10)
		errs, _ := s.told()
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], fs.ErrNotExist)
		s.write(file(1))
		s.intervals(10)
		s.requireTold(1) // it is right again
	})
}

// What changes between two readings may not be whole.
func TestWatch_ReadsNothingThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWatch(t, policyfile.Watcher{Interval: time.Minute})
		defer s.stop()
		s.intervals(2*60 + 30)
		for more := 1; more < 10; more++ {
			s.write(file(more))
			s.intervals(60)
			require.Zero(t, s.more())
		}
		s.intervals(60)
		require.Equal(t, 9, s.more())
	})
}

func TestWatch_ReadsTheFileAsTheLimiterNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := []policyfile.Option{policyfile.WithKey("account", httplimit.ByHeader("X-Account"))}
		s := startWatch(t, policyfile.Watcher{Options: options}, httplimit.WithPathFolding())
		defer s.stop()
		s.write("policies: [{name: all, pattern: /a//b, limits: 2/h, key: account}]")
		s.intervals(2)
		errs, _ := s.told()
		require.Len(t, errs, 2)
		require.ErrorContains(t, errs[1], "WithPathFolding cleans paths")
		require.ErrorAs(t, errs[1], new(policyfile.Errors), "with its place")
		s.write("policies: [{name: all, pattern: /a/b, limits: 2/h, key: account}]")
		s.intervals(2)
		s.requireTold(1)
		require.Equal(t, "/a/b", s.limiter.Policies()[0].Pattern)
	})
}

func TestWatch_WithAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limitsFor func(string) []sash.Limit
		s := startWatch(t, policyfile.Watcher{}, httplimit.WithStore(func(keys httplimit.StoreKeys) (httplimit.Store, error) {
			limitsFor = keys.LimitsFor
			return noStore{}, nil
		}))
		defer s.stop()
		s.requireTold(1)
		s.write("policies: [{name: all, limits: 7/h, key: everyone}]")
		s.intervals(2)
		s.requireTold(1)
		require.Equal(t, []sash.Limit{sash.PerHour(7)}, limitsFor("all\x00"))
	})
}

type noStore struct{ httplimit.Store }

func (noStore) Close() error { return nil }

func TestWatch_WithoutALimiter(t *testing.T) {
	require.PanicsWithValue(t, "policyfile: Watch must not be given a nil Limiter", func() {
		_ = policyfile.Watch(t.Context(), "limits.yaml", nil)
	})
}

// Whatever happens to a file, the limiter has the last policies that were right, and that two readings in a row
// have found.
func TestModel_Watch(t *testing.T) {
	programs := 300
	if testing.Short() {
		programs = 50
	}
	for seed := range programs {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 0x3a7c))
			s := startWatch(t, policyfile.Watcher{})
			defer s.stop()
			time.Sleep(time.Second / 2) // of the bubble
			const faulty, gone = -1, -2
			read, tried, want := 0, 0, 0
			s.requireTold(1)
			for range 30 {
				content := read
				switch r.IntN(6) {
				case 0:
					content = faulty
					s.write("policies: [{}]")
				case 1:
					content = gone
					_ = os.Remove(s.path)
				case 2, 3:
					content = r.IntN(3)
					s.write(file(content))
				}
				s.intervals(1)
				errs, _ := s.told()
				if content == read && content != tried {
					if tried = content; content >= 0 {
						want = content
					}
					require.Len(t, errs, 1, "seed %d", seed)
					require.Equal(t, content >= 0, errs[0] == nil, "seed %d", seed)
				} else {
					require.Empty(t, errs, "seed %d", seed)
				}
				read = content
				require.Equal(t, want, s.more(), "seed %d", seed)
			}
		})
	}
}
