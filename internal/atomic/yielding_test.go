//go:build yields && !schedules

package atomic

import (
	"runtime"
	"testing"
)

// accesses returns one access of every kind, to shared words. Made in this order, each
// reports whether it had its effect.
func accesses() []access {
	var (
		b  Bool
		i  Int64
		u  Uint64
		p  Pointer[int]
		m  Mutex
		i0 int64
		u0 uint64
		x  int
	)
	return []access{
		{"Bool.Store", func() bool { b.Store(true); return true }},
		{"Bool.Load", func() bool { return b.Load() }},
		{"Bool.CompareAndSwap", func() bool { return b.CompareAndSwap(true, false) }},
		{"Int64.Store", func() bool { i.Store(1); return true }},
		{"Int64.Load", func() bool { return i.Load() == 1 }},
		{"Int64.Add", func() bool { return i.Add(-2) == -1 }},
		{"Int64.CompareAndSwap", func() bool { return i.CompareAndSwap(-1, 0) }},
		{"Uint64.Store", func() bool { u.Store(1); return true }},
		{"Uint64.Load", func() bool { return u.Load() == 1 }},
		{"Uint64.Add", func() bool { return u.Add(2) == 3 }},
		{"Uint64.CompareAndSwap", func() bool { return u.CompareAndSwap(3, 0) }},
		{"Pointer.Store", func() bool { p.Store(&x); return true }},
		{"Pointer.Load", func() bool { return p.Load() == &x }},
		{"Pointer.CompareAndSwap", func() bool { return p.CompareAndSwap(&x, nil) }},
		{"Mutex.Lock", func() bool { m.Lock(); return true }},
		{"Mutex.Unlock", func() bool { m.Unlock(); return true }},
		{"StoreInt64", func() bool { StoreInt64(&i0, 1); return true }},
		{"LoadInt64", func() bool { return LoadInt64(&i0) == 1 }},
		{"StoreUint64", func() bool { StoreUint64(&u0, 1); return true }},
		{"LoadUint64", func() bool { return LoadUint64(&u0) == 1 }},
		{"AddUint64", func() bool { return AddUint64(&u0, 1) == 2 }},
	}
}

type access struct {
	name string
	do   func() bool
}

func TestYields_BeforeEachAccess(t *testing.T) {
	defer func(every uint32) { yieldEvery, gosched = every, runtime.Gosched }(yieldEvery)
	for every, want := range map[uint32]bool{0: false, 1: true} {
		yieldEvery = every
		for _, a := range accesses() {
			yields := 0
			gosched = func() { yields++ }
			if !a.do() {
				t.Errorf("%s has not had its effect", a.name)
			}
			if yielded := yields > 0; yielded != want {
				t.Errorf("%s, with a yield in %d: yielded %v", a.name, every, yielded)
			}
		}
	}
}

func TestYields_HaveTheSetFrequency(t *testing.T) {
	defer func(every uint32) { yieldEvery, gosched = every, runtime.Gosched }(yieldEvery)
	yields := 0
	gosched = func() { yields++ }
	const accesses, every = 240_000, 24
	yieldEvery = every
	var x Uint64
	for range accesses {
		x.Load()
	}
	// One to three each: the deviation is below 250.
	if mean := 2 * accesses / every; yields < mean-2500 || yields > mean+2500 {
		t.Errorf("%d yields in %d accesses, want about %d", yields, accesses, mean)
	}
}

func TestYieldEvery_IsSetByTheEnvironment(t *testing.T) {
	for text, want := range map[string]uint32{"": 24, "0": 0, "7": 7} {
		if got := parseYieldEvery(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	for _, text := range []string{"x", "-1", "5000000000"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken", text)
				}
			}()
			parseYieldEvery(text)
		}()
	}
}
