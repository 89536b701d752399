package httplimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A Transport is an [http.RoundTripper] that lets each request wait for its turn before
// it is sent, so that a client keeps to the limits of the servers that it calls:
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// The kind of limit tells how requests are spaced. Under sash.PerSecond(10).Log(), ten are
// sent at once, and ten more after a second. A [sash.TokenBucket] paces them:
// sash.PerSecond(10).TokenBucket(1) sends one each 100 milliseconds, and a larger Burst lets
// that many go at once after a pause.
//
// A request waits as in [sash.Limiter.Wait], on the key of its host, for as long as its
// context allows. The Transport retries nothing by itself, and follows no redirect: the
// client does, and each hop waits under its own key.
//
// # Held keys
//
// The Transport also holds a key back when the server asks for it by a denial. Requests of
// that key, including those that wait already, are then not sent until the time has passed.
// A server asks for it by a 429 or 503 with one of these. If it has both, the first holds:
//
//   - Retry-After, which is a date or a number of seconds. A fraction is rounded up.
//   - In a 429, a RateLimit that reports that a quota is used up: "default";r=0;t=30 holds the
//     key back for 30 seconds. If several quotas are used up, the longest t holds.
//
// A RateLimit in any other response has no effect, as the limiter has admitted that request. The
// quota may be for one user or one route, and other requests may be admitted.
//
// Keys are held back in this process alone, also with a Store.
//
// # Errors
//
// The error of a request that is not sent wraps one of these. The body of such a
// request has not been read, and is closed.
//
//   - The error of its context, as soon as the context ends. If the deadline is certain
//     to come first, it is [context.DeadlineExceeded] at once. If that is since the server asked
//     to wait, it is in a [*TurnError], which tells for how long.
//   - [sash.ErrExceedsLimit] for a cost that is never admitted.
//   - Under NoWait, it is a [*TurnError].
//   - With a Store, what is wrong with a call that the store refuses.
//
// A request whose context ends after it was admitted stays charged. So does a request
// that is held back at the moment of its admission, and it is charged again when it is
// sent.
//
// # Cost and concurrency
//
// A Transport is safe for concurrent use. Its fields must not be changed once it is
// used, and it must not be copied. Admission takes a lock twice, and starts no
// goroutine.
//
// A key costs memory while requests of it wait, and some 200 bytes while it is held back. That
// memory is freed at the key's next request after the time has passed, or when other
// keys are held back. So there are never more such keys than 32 or twice the number that
// were held at one time, whichever is more, and never more than MaxHeld.
type Transport struct {
	// Limiter admits the requests. Either a Limiter or a Store is required: without one, and
	// with both, every request is an error.
	Limiter *sash.Limiter

	// Store admits the requests instead, together with the requests of all processes that share
	// it. Requests of this process wait in order for one key; requests of several processes are
	// admitted in any order. While the store does not answer, its fallback decides.
	Store Store

	// Base sends the admitted requests. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Key returns the key that a request is charged to. Nil means [ByHost]. A request
	// whose key cannot be told is an error.
	Key KeyFunc

	// Cost returns how many units a request takes. Nil means 1. A request with a cost of 0
	// waits only while its key is over its limits or held back. A negative cost is never
	// admitted.
	Cost func(r *http.Request) int64

	// NoWait makes a request that would have to wait fail with a [*TurnError].
	NoWait bool

	// MaxHold bounds for how long one response holds a key back, on the Limiter's clock or, with a
	// Store, on the system's. 0 means an hour. If it is negative, Retry-After and RateLimit are ignored.
	MaxHold time.Duration

	// MaxHeld bounds how many keys are held back at a time. 0 or less means 16384. Beyond it, the
	// domain with the most of these keys loses the one whose time would end first, which may be the
	// new one. So the names of one domain end no holds of domains that have fewer. The next request of
	// that key waits for the Limiter only. Requests of it that wait already keep waiting.
	//
	// The domain of a host is its last two labels, or its last three if two are a public suffix such as
	// "co.uk". Of IPv4 it is the address, and of IPv6 its first 48 bits. With a Key, each key is a domain.
	MaxHeld int

	mu        sync.Mutex
	gates     map[string]*gate // by the key of holds; guarded by mu, as are the fields below
	holds     int              // number of gates with a hold, passed or not
	perDomain map[string]int   // of these, by domain
	purgeAt   int              // number of holds at which those that have passed are purged
}

// A gate is the place where the requests of one key wait. It exists while a request
// waits, and while the key is held back. Its fields are guarded by the Transport's mu.
type gate struct {
	until    int64  // instant until which the key is held back, or notHeld
	domain   string // of the hold
	requests int    // number of requests that wait

	// changed ends when the key is held back, or held for longer. The requests that wait
	// then start over. Otherwise the Limiter would admit them while the key is held back.
	// Both are nil while none waits.
	changed context.Context
	notify  context.CancelFunc // ends changed
}

// notHeld stands for a key that is not held back. It is before any instant that a clock shows.
const notHeld = math.MinInt64

// A TurnError reports that a [Transport] did not send a request that would have had to wait: with
// NoWait, or since the server asked to wait beyond the deadline of its context.
type TurnError struct {
	// RetryAfter is how long the request would have to wait, if nothing else is charged.
	RetryAfter time.Duration
	// Held reports whether the server asked to wait, with Retry-After or RateLimit.
	// Otherwise, the Limiter denies the request.
	Held bool
	// Err is [context.DeadlineExceeded] if the deadline of the request would end its wait. With
	// a Store, it is why the Store did not decide. Else it is nil.
	Err error
}

// Unwrap returns Err.
func (e *TurnError) Unwrap() error { return e.Err }

// Error returns, for example, "httplimit: not sent: the limiter admits it in 1.5s".
func (e *TurnError) Error() string {
	why, reason := "the limiter admits it in", ""
	if e.Err != nil {
		why, reason = "the fallback of the store admits it in", ": "+e.Err.Error()
	}
	if e.Held {
		why = "the server asked to wait for another"
	}
	return fmt.Sprintf("httplimit: not sent: %s %v%s", why, e.RetryAfter, reason)
}

var (
	errNoLimiter   = errors.New("httplimit: Transport.Limiter must not be nil, unless there is a Store")
	errTwoLimiters = errors.New("httplimit: Transport must not have both a Limiter and a Store")
	errNoKey       = errors.New("httplimit: not sent: the request does not tell the key to count it under")
)

// defaultMaxHold is the longest window that is common among services. A server that
// asks to wait for a year has made a mistake.
const defaultMaxHold = time.Hour

// defaultMaxHeld is the number of keys whose holds take about 3 MB.
const defaultMaxHeld = 1 << 14

// clock returns the clock of the holds.
func (t *Transport) clock() sash.Clock {
	if t.Store == nil {
		return t.Limiter.Clock()
	}
	return sash.SystemClock()
}
