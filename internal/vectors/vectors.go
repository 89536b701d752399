// Package vectors reads calls and the answers of an independent implementation to them, for
// tests. It does not import sash, so that the tests in package sash can use it.
package vectors

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Vector is a call and its answer. The calls of one Seq share their state.
type Vector struct {
	Seq    int
	Limits []Limit
	Keys   []string
	Now    Instant
	Weight int64
	Over   int // 1: denied
}

// A Limit is sliding buckets. If Precision is Window, it is a fixed window.
type Limit struct {
	Count             int64
	Window, Precision time.Duration
}

// UnmarshalJSON reads seconds, count and, unless it is a fixed window, the precision in seconds.
func (l *Limit) UnmarshalJSON(text []byte) error {
	var numbers []int64
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	l.Window, l.Count = time.Duration(numbers[0])*time.Second, numbers[1]
	l.Precision = l.Window
	if len(numbers) > 2 {
		l.Precision = time.Duration(numbers[2]) * time.Second
	}
	return nil
}

// An Instant is in nanoseconds.
type Instant int64

// UnmarshalJSON reads a decimal number of seconds, exactly.
func (i *Instant) UnmarshalJSON(text []byte) error {
	whole, fraction, _ := strings.Cut(string(text), ".")
	d, err := time.ParseDuration(whole + "s" + (fraction + "000000000")[:9] + "ns")
	*i = Instant(d)
	return err
}

// Read returns all vectors. root is the path of the repository. The vectors are not part of
// it: Read skips the test if they are not beside it.
func Read(t *testing.T, root string) (all []Vector) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "../shared/vectors/redis_buckets.jsonl.gz"))
	if err != nil {
		t.Skipf("no vectors: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for lines := bufio.NewScanner(z); lines.Scan(); {
		var v Vector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		all = append(all, v)
	}
	return all
}
