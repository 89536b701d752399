package fuzz

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
)

// longestError bounds the error for a refused text: three quotations of at most 64 bytes,
// which strconv.Quote may write as four each, and prose.
const longestError = 3*64*4 + 512

// FuzzParseLimit compares ParseLimit with a reading of the text by a regular expression.
func FuzzParseLimit(f *testing.F) {
	for _, s := range limitTexts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := sash.ParseLimit(s)
		if want, ok := meaning(s); ok != (err == nil) || l != want {
			t.Errorf("ParseLimit(%q) is %v, %v; want %v, accepted: %v", s, l, err, want, ok)
		}
		if err != nil {
			refused(t, s, l, err)
			return
		}
		usable(t, l)
		roundTrips(t, l)
	})
}

var limitTexts = []string{
	"100/s", "100/m", "100/h", "100/d", "5/250ms log", "240/h buckets 1m",
	"100/1m0s", "10/1s log", "240/1h0m0s buckets 1m0s",
	"1/1ns", "9223372036854775807/9223372036854775807ns", "9223372036854775808/s",
	"1/2562047h47m16.854775807s log", "1/2562047h47m16.854775808s",
	"+7/+1h", "-1/s", "0/s", "1/0s", "1/-1s", "007/1µs", "7/0.5h", "7/.5ns",
	"", " ", "/", "10", "10/", "/s", "10/s/s", "10 /s", "10/ s", "\t10/s\nlog ",
	strings.Repeat("9", 500) + "/" + strings.Repeat("\x00", 500) + " buckets " + strings.Repeat("\xff", 500),
	"1/" + strings.Repeat("\xff", 500), "1/s " + strings.Repeat("log ", 500), "1/s buckets " + strings.Repeat("\xff", 500),
	"100 / min", "100/hour counter", "5000/30d", "10/w", "10/-1d", "10/106751d", "10/106752d", "10/15250w log", "10/15251w",
	"10/+2d", "10/1.5d", "10/d5", "10//s", "10 per minute", "100r/m", "60/Minutes",
	"1000/48h buckets 90m", "10/s log log", "10/s log 1s", "10/s buckets", "10/s buckets 0", "10/s buckets 2s",
	"unlimited", " unlimited ", "Unlimited", "unlimited log", "0/m log", "0/0s", "9223372036854775807/9223372036854775807ns log",
	"10/s buckets 1s 1s", "10/s Log", "10/1x", "1e3/s", "10/s\u00a0log", "10/s\xff", "\x00/\x00",
	"16/m", "17/m", "16/m counter", "17/m log", "0x10/m", "16/m counter counter",
	"10/s burst 100", "10/1s burst 1", "10/s burst 0", "10/s burst -5", "10/s burst +7", "10/s burst", "10/s burst 1 2", "10/s burst 1s",
	"0/s burst 3", "3/s burst 9223372036854775807", "3/s burst 9223372036854775808", "9223372036854775807/9223372036854775807ns burst 1",
	"16/m parts", "17/m parts", "17/m counter", "17/1m0s", "0/m parts", "10/s parts 16", "10/s Parts", "17/1µs",
	"9223372036854775807/9223372036854775807ns counter", "9223372036854775807/9223372036854775806ns",
	"9223372036854775807/9223372036854775807ns parts",
	"5 at once", "5 at once for 1m0s", "5 at once 1m", " 5\tat once  for h\n", "0 at once", "+5 at once 1d", "-1 at once", "5 at once 0s", "5 at once for -1s",
	"5 at once for", "5 at once for for 1m", "5 at once 1m 1m", "5 at once 1m log", "x at once", "at once", "5 At Once", "5 concurrent", "5 at a time 1m",
	"5 at once/m", "5/m at once", "9223372036854775807 at once for 9223372036854775807ns", "5 in parallel for 10 s", "5at once",
}

var (
	heldFor   = regexp.MustCompile(`^(\S+) at once(| (?:for )?(\S+))$`)
	written   = regexp.MustCompile(`^(\S*?) ?/ ?(\S*)(| counter| log| parts| buckets (\S*)| burst ([+-]?\d+))$`)
	dated     = regexp.MustCompile(`^([+-]?\d+)([dw])$`)
	bareUnits = map[string]time.Duration{
		"s": time.Second, "sec": time.Second, "second": time.Second,
		"m": time.Minute, "min": time.Minute, "minute": time.Minute,
		"h": time.Hour, "hour": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour,
		"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
	}
)

// meaning returns the limit that s stands for, and whether it stands for one.
func meaning(s string) (l sash.Limit, ok bool) {
	words := strings.Join(strings.Fields(s), " ")
	if words == "unlimited" {
		return sash.Unlimited(), true
	}
	if parts := heldFor.FindStringSubmatch(words); parts != nil {
		count, err := strconv.ParseInt(parts[1], 10, 64)
		lease := time.Minute
		if parts[2] != "" {
			lease = length(parts[3])
		}
		if err != nil || count < 0 || lease < 1 {
			return l, false
		}
		return sash.AtOnce(count, lease), true
	}
	parts := written.FindStringSubmatch(words)
	if parts == nil {
		return l, false
	}
	count, err := strconv.ParseInt(parts[1], 10, 64)
	if parts[5] != "" {
		burst, wrong := strconv.ParseInt(parts[5], 10, 64)
		window := length(parts[2])
		l = sash.Limit{Count: count, Window: window, Algorithm: sash.TokenBucket, Burst: burst}
		if err != nil || wrong != nil || count < 0 || window < 1 || burst < 1 {
			return sash.Limit{}, false
		}
		return l, true
	}
	window, precision := length(parts[2]), length(parts[4])
	switch {
	case err != nil || count < 0 || window < 1:
		return l, false
	case parts[3] == "" && count == math.MaxInt64 && window == math.MaxInt64:
		return sash.Unlimited(), true
	case parts[3] == " counter":
		return sash.Limit{Count: count, Window: window, Algorithm: sash.SlidingCounter}, true
	case parts[3] == "" && count > 16, parts[3] == " parts":
		return sash.Limit{Count: count, Window: window, Algorithm: sash.SlidingParts}, true
	case parts[3] == "", parts[3] == " log":
		return sash.Limit{Count: count, Window: window, Algorithm: sash.SlidingLog}, true
	case 0 < precision && precision <= window:
		return sash.Limit{Count: count, Window: window, Algorithm: sash.SlidingBuckets, Precision: precision}, true
	}
	return l, false
}

// length returns the duration that s stands for, or 0 if it stands for none.
func length(s string) time.Duration {
	if d, ok := bareUnits[s]; ok {
		return d
	}
	if parts := dated.FindStringSubmatch(s); parts != nil {
		n, ok := new(big.Int).SetString(parts[1], 10)
		if n.Mul(n, big.NewInt(int64(bareUnits[parts[2]]))); !ok || !n.IsInt64() {
			return 0
		}
		return time.Duration(n.Int64())
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return d
}

// refused checks an error of ParseLimit, and that UnmarshalText refuses s as well.
func refused(t *testing.T, s string, l sash.Limit, err error) {
	if !errors.Is(err, sash.ErrInvalidLimit) {
		t.Errorf("%q: error does not wrap ErrInvalidLimit: %v", s, err)
	}
	if n := len(err.Error()); n > longestError {
		t.Errorf("%q: error of %d bytes: %v", s, n, err)
	}
	if l != (sash.Limit{}) {
		t.Errorf("%q: refused, and yet returned %v", s, l)
	}
	before := sash.PerHour(240).Buckets(time.Minute)
	if after := before; s != "" && (after.UnmarshalText([]byte(s)) == nil || after != before) {
		t.Errorf("%q: UnmarshalText left %v of %v, or took what ParseLimit refuses", s, after, before)
	}
}

// usable checks that New accepts l.
func usable(t *testing.T, l sash.Limit) {
	limiter, err := sash.New(l, sash.WithSweepInterval(-1))
	if err != nil {
		t.Fatalf("New refuses %v: %v", l, err)
	}
	left := int64(0)
	if l == sash.Unlimited() {
		left = math.MaxInt64
	}
	if d := limiter.Take("key", most(l)); !d.Allowed || d.Limit != l || d.Remaining != left {
		t.Errorf("%v: Take of as many units as it admits by a new key: %+v", l, d)
	}
}

// roundTrips checks that the text of l is read as l again.
func roundTrips(t *testing.T, l sash.Limit) {
	if again, err := sash.ParseLimit(l.String()); err != nil || again != l {
		t.Errorf("ParseLimit(%q) is %v, %v", l.String(), again, err)
	}
	text, err := l.MarshalText()
	if err != nil || string(text) != l.String() {
		t.Errorf("MarshalText of %v is %q, %v", l, text, err)
	}
	var again sash.Limit
	if err := again.UnmarshalText(text); err != nil || again != l {
		t.Errorf("UnmarshalText(%q) is %v, %v", text, again, err)
	}
}
