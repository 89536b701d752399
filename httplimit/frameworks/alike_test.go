package frameworks_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// plainCrossing is the crossing of net/http: what an adapter does, in a few lines, by the methods of a Limiter that
// it is made of. The adapters must do the same.
var plainCrossing = crossing{
	site: func(handler func(visit) error, layers ...layer) any {
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answerPlain(w, handler(plainVisit(w, r)))
		})
		for i := range layers {
			h = layers[len(layers)-1-i].plain(h)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /teams/{team}/users/{id}", func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			h.ServeHTTP(w, r)
		})
		return mux
	},
	by: func(key func(visit) (string, bool)) httplimit.KeyFunc {
		return httplimit.By(func(r *http.Request) (string, bool) { return key(plainVisit(nil, r)) })
	},
}

func plainVisit(w http.ResponseWriter, r *http.Request) visit {
	return visit{r.Header.Get, func(status int, body string) error {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, err := w.Write([]byte(body))
		return err
	}, r.Context()}
}

// answerPlain answers an error in the application's way.
func answerPlain(w http.ResponseWriter, err error) {
	if err != nil {
		_ = plainVisit(w, new(http.Request)).send(statusOf(err), "app: "+err.Error())
	}
}

// plain puts l around a handler of net/http.
func (l layer) plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.skip != nil && l.skip(plainVisit(w, r)) {
			next.ServeHTTP(w, r)
			return
		}
		switch v := l.Decide(w.Header(), r); {
		case v.Outcome == httplimit.Admitted:
			v.Charges.Serve(next, w, r)
		case v.Outcome == httplimit.Denied && l.denied != nil:
			w.Header().Set("Cache-Control", "no-store")
			answerPlain(w, l.denied(plainVisit(w, r), v.Denial))
		case v.Outcome == httplimit.Unidentified && l.unidentified != nil:
			answerPlain(w, l.unidentified(plainVisit(w, r)))
		default:
			l.Refuse(w, r, v)
		}
	})
}

// A trial is a service of one framework that a program runs on, and what has happened there.
type trial struct {
	*crossed
	log []string
}

// newTrial returns a service of a framework, whose two limiters and their options are drawn.
func newTrial(t *testing.T, of crossing, draw *rand.Rand) *trial {
	c := &trial{crossed: &crossed{bed: &bed{T: t, clock: sash.NewManualClock(0)}, crossing: of}}
	outer, inner := c.layer("outer", draw), c.layer("inner", draw)
	c.send = sender(t, c.site(func(v visit) error {
		switch v.header("X-Do") {
		case "panic":
			panic(errors.New("oh"))
		case "error":
			return errors.New("failed")
		case "commit":
			httplimit.ChargeOf(v.context, "outer").Commit(2)
			httplimit.ChargeOf(v.context, "inner").Commit(3)
		case "cancel":
			httplimit.ChargeOf(v.context, "inner").Cancel()
		case "ask":
			c.note("within", c.get(user, "X-Account", "a"))
		}
		return c.handle(v)
	}, outer, inner))
	return c
}

func (c *trial) note(of string, r reply) {
	body := r.body
	if r.status == http.StatusInternalServerError && (body == "" || strings.HasPrefix(body, "app: ")) {
		body = "an error, or a panic, in the words of the framework"
	}
	told := []string{}
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After", "Cache-Control"} {
		told = append(told, fmt.Sprint(r.header.Values(name)))
	}
	c.log = append(c.log, fmt.Sprint(of, ": ", r.status, " ", strings.TrimSpace(body), " ", told))
}

// one returns one of all.
func one[T any](draw *rand.Rand, all ...T) T { return all[draw.IntN(len(all))] }

// layer returns a limiter with a policy of that name, and options of the adapter.
func (c *trial) layer(name string, draw *rand.Rand) layer {
	p := httplimit.Policy{
		Name: name,
		Key:  httplimit.Everyone(),
		Limits: one(draw,
			[]sash.Limit{sash.PerHour(draw.Int64N(6)).Log()},
			[]sash.Limit{sash.PerMinute(1 + draw.Int64N(9)), sash.PerHour(20).TokenBucket(1 + draw.Int64N(9))},
			[]sash.Limit{sash.AtOnce(1+draw.Int64N(2), time.Hour)},
			[]sash.Limit{sash.AtOnce(1, time.Hour), sash.PerHour(1 + draw.Int64N(20))}),
		Charge:          one(draw, nil, failed, succeeded),
		ChargeUncertain: one(draw, nil, func(status int) bool { return status >= 500 }),
		Settle:          one(draw, nil, nil, httplimit.SettleEstimate(), httplimit.SettleBytes()),
		Shadow:          draw.IntN(8) == 0,
	}
	if draw.IntN(3) > 0 {
		p.Key = c.by(func(v visit) (string, bool) {
			if v.header("X-Account") == "panic" {
				panic("oh")
			}
			return accountOf(v.header("X-Account"))
		})
	}
	if draw.IntN(3) == 0 {
		p.Plans = map[string][]sash.Limit{"b": {sash.PerHour(2).Log()}}
		p.Plan = func(r *http.Request) string { return r.Header.Get("X-Account") }
	}
	if draw.IntN(3) == 0 {
		p.Skip = func(r *http.Request) bool { return r.PathValue("team") == "2" }
	}
	options := []httplimit.Option{p, httplimit.WithObserver(func(e httplimit.Event) {
		c.log = append(c.log, fmt.Sprint(e.Policy, " ", e.Outcome, " ", e.Cost, " ", e.Estimate, " ", e.Decision.Remaining))
	})}
	options = append(options, one(draw, nil, []httplimit.Option{httplimit.WithXRateLimit()}, []httplimit.Option{httplimit.WithoutRateLimit()})...)
	answer := func(v visit) error { return v.send(http.StatusTeapot, name+" refuses") }
	l := layer{Limiter: c.limit(options...)}
	l.skip = one(draw, nil, nil, func(v visit) bool { return v.header("X-Skip") == name })
	l.denied = one(draw, nil, slowDown,
		func(v visit, d httplimit.Denial) error { return answer(v) },
		func(visit, httplimit.Denial) error { panic(errors.New("oh")) })
	l.unidentified = one(draw, nil, answer, func(visit) error { return errWho })
	return l
}

// run sends a request that is drawn, or lets time pass.
func (c *trial) run(draw *rand.Rand) {
	if draw.IntN(6) == 0 {
		c.clock.Advance(time.Duration(draw.IntN(40)) * time.Minute)
		return
	}
	c.note("reply", c.get(one(draw, user, user, "/teams/2/users/1"),
		"X-Account", one(draw, "a", "a", "b", "", "panic"),
		"X-Skip", one(draw, "", "", "outer", "inner"),
		"X-Do", one(draw, "", "fail", "error", "panic", "commit", "cancel", "ask")))
}

// Programs of requests are answered and charged alike in all frameworks, whatever options their limiters have: as by
// the few lines of plainCrossing. SASH_MODEL_SEED runs one program, and SASH_MODEL_PROGRAMS sets how many run.
func TestModel_AdaptersAreAlike(t *testing.T) {
	log.SetOutput(io.Discard) // of panics
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	first, programs := uint64(1), uint64(150)
	if seed, err := strconv.ParseUint(os.Getenv("SASH_MODEL_SEED"), 10, 64); err == nil && seed > 0 {
		first, programs = seed, 1
	}
	if n, err := strconv.ParseUint(os.Getenv("SASH_MODEL_PROGRAMS"), 10, 64); err == nil && n > 0 {
		programs = n
	}
	frameworks := map[string]crossing{"net/http": plainCrossing}
	for name, of := range crossings {
		frameworks[name] = of
	}
	// An error that is answered around both limiters leaves them uncertain. gin's other idiom is to answer it there.
	frameworks["gin"] = crossing{site: ginCrossing(ginAnswer), by: crossings["gin"].by}
	for seed := first; seed < first+programs; seed++ {
		logs := map[string][]string{}
		for name, of := range frameworks {
			draw := rand.New(rand.NewPCG(seed, 0))
			c := newTrial(t, of, draw)
			for range 30 {
				c.run(draw)
			}
			logs[name] = c.log
		}
		for name := range frameworks {
			if want := logs["net/http"]; !sameLog(want, logs[name]) {
				at := 0
				for at < min(len(want), len(logs[name])) && want[at] == logs[name][at] {
					at++
				}
				require.Equal(t, want[max(0, at-5):], logs[name][max(0, at-5):],
					"%s: seed %d: repeat it with SASH_MODEL_SEED=%d go test -run TestModel_AdaptersAreAlike ./httplimit/frameworks", name, seed, seed)
			}
		}
	}
}

func sameLog(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }
