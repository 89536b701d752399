package frameworks_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
)

// fiberPeer is the limiter of fiber's package middleware/limiter.
var fiberPeer = peer{
	name: "fiber's limiter", module: "github.com/gofiber/fiber/v3", tests: []string{"middleware/limiter/*_test.go"},
	rows: []behaviour{
		{
			what: "defaults", peer: "5 requests a minute by `c.IP()`",
			sash:  "different: nothing is chosen for you; New returns an error without a Policy",
			tests: []string{"TestLimiterDefaultConfigNoPanic"},
			check: func(t *testing.T) {
				_, err := httplimit.New(httplimit.WithPathFolding())
				require.ErrorContains(t, err, "New needs a Policy")
			},
		},
		{
			what: "many requests at once", peer: "`Max` are served, the others get 429, and a window later they are served again",
			sash:  "the same",
			tests: []string{"Test_Limiter_Concurrency", "Test_Limiter_Concurrency_Store", "Test_Limiter_With_Max_Func"},
			check: func(t *testing.T) {
				b := newBed(t, fiberHello(), limits(nil, sash.Per(50, 2*time.Second)))
				require.Equal(t, map[int]int{200: 50, 429: 10}, b.together(60))
				b.clock.Advance(2 * time.Second)
				require.Equal(t, map[int]int{200: 1}, b.times(1))
			},
		},
		{
			what: "a sliding window", peer: "`SlidingWindow{}` weighs the window before; after three idle windows the whole `Max` is there",
			sash:  "the same, in finer steps: a client that keeps to its limit is never denied, and `Counter()` is the rule of two windows",
			tests: []string{"Test_Sliding_Window", "Test_Limiter_Sliding_Window_ExpiresStalePrevHits"},
			check: func(t *testing.T) {
				for _, limit := range []sash.Limit{sash.PerSecond(10), sash.PerSecond(10).Counter()} {
					b := newBed(t, fiberHello(), limits(nil, limit))
					for range 3 {
						require.Equal(t, map[int]int{200: 5}, b.times(5))
						b.clock.Advance(3 * time.Second)
					}
					require.Equal(t, map[int]int{200: 10, 429: 5}, b.times(15))
				}
			},
		},
		{
			what: "all requests count", peer: "failed ones too, unless told otherwise",
			sash: "the same",
			tests: []string{
				"Test_Limiter_Fixed_Window_No_Skip_Choices", "Test_Limiter_Fixed_Window_Custom_Storage_No_Skip_Choices",
				"Test_Limiter_Sliding_Window_No_Skip_Choices", "Test_Limiter_Sliding_Window_Custom_Storage_No_Skip_Choices",
			},
			check: checkFiberCharge(2, nil, []string{"/fail", "/success", "/success"}, []int{400, 200, 429}),
		},
		{
			what: "only successes count", peer: "SkipFailedRequests",
			sash: "the same: `Charge: func(status int) bool { return status < 400 }`",
			tests: []string{
				"Test_Limiter_Fixed_Window_Skip_Failed_Requests", "Test_Limiter_Fixed_Window_Custom_Storage_Skip_Failed_Requests",
				"Test_Limiter_Sliding_Window_Skip_Failed_Requests", "Test_Limiter_Sliding_Window_Custom_Storage_Skip_Failed_Requests",
			},
			check: checkFiberCharge(1, succeeded, []string{"/fail", "/success", "/success"}, []int{400, 200, 429}),
		},
		{
			what: "only failures count", peer: "SkipSuccessfulRequests",
			sash: "the same: `Charge: func(status int) bool { return status >= 400 }`",
			tests: []string{
				"Test_Limiter_Fixed_Window_Skip_Successful_Requests", "Test_Limiter_Fixed_Window_Custom_Storage_Skip_Successful_Requests",
				"Test_Limiter_Sliding_Window_Skip_Successful_Requests", "Test_Limiter_Sliding_Window_Custom_Storage_Skip_Successful_Requests",
			},
			check: checkFiberCharge(1, failed, []string{"/success", "/fail", "/fail"}, []int{200, 400, 429}),
		},
		{
			what: "a failure is an error", peer: "an error that a handler returns counts by its status",
			sash:  "the same: the ErrorHandler answers it at once, and its answer counts",
			tests: []string{"Test_Limiter_Bug_NewErrorf_SkipSuccessfulRequests_SlidingWindow", "Test_Limiter_Bug_NewErrorf_SkipSuccessfulRequests_FixedWindow"},
			check: checkFiberCharge(1, failed, []string{"/error", "/error"}, []int{500, 429}),
		},
		{
			what: "a request that is given back late", peer: "comes off the window in which it was counted",
			sash:  "the same",
			tests: []string{"Test_Limiter_Sliding_Window_SkipFailedRequests_DecrementsPreviousWindow"},
			check: func(t *testing.T) {
				p := limits(nil, sash.Per(2, time.Second).Counter())
				p.Charge = succeeded
				var b *bed
				b = newBed(t, func(l *httplimit.Limiter) any {
					return fiberApp(l, func(c fiber.Ctx) error {
						if c.Params("status") != "fail" {
							return c.SendStatus(200)
						}
						b.clock.Advance(1100 * time.Millisecond) // in the next window, where another request is served
						require.Equal(b, 200, b.get("/success").status)
						return c.SendStatus(500)
					})
				}, p)
				require.Equal(t, 500, b.get("/fail").status)
				require.Equal(t, []int{200, 429}, b.gets("/success", "/success"))
			},
		},
		{
			what: "a limit for each request", peer: "`MaxFunc` goes before `Max`",
			sash:  "the same for each client: `Plan` chooses among `Plans`. For each request on one count, `Leave`",
			tests: []string{"Test_Limiter_Sliding_MaxFuncOverridesStaticMax", "Test_Limiter_With_Max_Func"},
			check: func(t *testing.T) {
				b := newBed(t, fiberHello(), planned(sash.Per(5, 2*time.Second), sash.Per(2, 2*time.Second)), httplimit.WithXRateLimit())
				for _, left := range []string{"1", "0"} {
					r := b.get("/success")
					require.Equal(t, 200, r.status)
					require.Equal(t, []string{"2", left}, []string{r.header.Get("X-RateLimit-Limit"), r.header.Get("X-RateLimit-Remaining")})
				}
				require.Equal(t, 429, b.get("/success").status)

				most := int64(1) // of 5, for this request
				p := limits(nil, sash.Per(5, 2*time.Second))
				p.Leave = func(*http.Request) int64 { return 5 - most }
				b = newBed(t, fiberHello(), p)
				require.Equal(t, map[int]int{200: 1, 429: 1}, b.times(2))
				most = 4
				require.Equal(t, map[int]int{200: 3, 429: 1}, b.times(4))
			},
		},
		{
			what: "a limit of 0", peer: "`MaxFunc` that returns 0 lets everything through",
			sash:  "different: a limit of 0 admits nothing; `sash.Unlimited()` lets everything through",
			tests: []string{"Test_Limiter_With_Max_Func_With_Zero", "Test_Limiter_With_Max_Func_With_Zero_And_Limiter_Sliding"},
			check: func(t *testing.T) {
				b := newBed(t, fiberHello(), planned(sash.PerSecond(1), sash.Unlimited()))
				require.Equal(t, []int{400, 200, 200, 200}, b.gets("/fail", "/success", "/success", "/success"))
				b = newBed(t, fiberHello(), planned(sash.PerSecond(1), sash.PerSecond(0)))
				require.Equal(t, []int{429}, b.gets("/success"))
			},
		},
		{
			what: "a window for each request", peer: "`ExpirationFunc` goes before `Expiration`",
			sash:  "the same for each client: a plan has limits with windows of their own",
			tests: []string{"Test_Limiter_Fixed_ExpirationFuncOverridesStaticExpiration", "Test_Limiter_Sliding_ExpirationFuncOverridesStaticExpiration"},
			check: func(t *testing.T) {
				b := newBed(t, fiberHello(), planned(sash.Per(2, 10*time.Second), sash.Per(2, 2*time.Second)))
				require.Equal(t, map[int]int{200: 2, 429: 1}, b.times(3))
				b.clock.Advance(2 * time.Second)
				require.Equal(t, 200, b.get("/").status)
			},
		},
		{
			what: "a window of 0 or less", peer: "counts as a minute",
			sash: "different: an error of New, for plans too, before the first request comes",
			tests: []string{
				"Test_Limiter_Fixed_ExpirationFunc_FallbackOnZeroDuration", "Test_Limiter_Fixed_ExpirationFunc_FallbackOnNegativeDuration",
				"Test_Limiter_Sliding_ExpirationFunc_FallbackOnZeroDuration", "Test_Limiter_Sliding_ExpirationFunc_FallbackOnNegativeDuration",
			},
			check: func(t *testing.T) {
				for _, window := range []time.Duration{0, -time.Second} {
					_, err := httplimit.New(planned(sash.PerSecond(1), sash.Per(1, window)))
					require.ErrorIs(t, err, sash.ErrInvalidLimit)
				}
			},
		},
		{
			what: "Next", peer: "a request for which it returns true is not limited",
			sash:  "the same: WithNext",
			tests: []string{"Test_Limiter_Next"},
			check: func(t *testing.T) {
				b := newBed(t, func(l *httplimit.Limiter) any {
					app := fiber.New()
					return app.Use(fiberlimit.New(l, fiberlimit.WithNext(func(fiber.Ctx) bool { return true })))
				}, limits(nil, sash.PerHour(0)))
				require.Equal(t, 404, b.get("/").status)
			},
		},
		{
			what: "headers", peer: "X-RateLimit-Limit, -Remaining and -Reset, in seconds from now",
			sash:  "the same by WithXRateLimit; by default the `RateLimit` fields of the draft standard",
			tests: []string{"Test_Limiter_Headers"},
			check: func(t *testing.T) {
				b := newBed(t, fiberHello(), limits(nil, sash.Per(50, 2*time.Second)), httplimit.WithXRateLimit())
				h := b.get("/success").header
				require.Equal(t, []string{"50", "49", "2"}, []string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")})
				require.Equal(t, `"all";q=50;w=2`, h.Get("RateLimit-Policy"))
			},
		},
		{
			what: "no headers", peer: "`DisableHeaders` leaves out Retry-After, too",
			sash:  "different: WithoutRateLimit keeps Retry-After, by which clients know when to come back; WithDenied may delete it",
			tests: []string{"Test_Limiter_Disable_Headers"},
			check: func(t *testing.T) {
				b := newBed(t, fiberHello(), limits(nil, sash.Per(1, 2*time.Second)), httplimit.WithoutRateLimit())
				for _, want := range []string{"", "2"} {
					h := b.get("/success").header
					require.Empty(t, h.Get("RateLimit")+h.Get("RateLimit-Policy")+h.Get("X-RateLimit-Limit"))
					require.Equal(t, want, h.Get("Retry-After"))
				}
				b = newBed(t, fiberHello(fiberlimit.WithDenied(func(c fiber.Ctx, _ httplimit.Denial) error {
					c.Response().Header.Del("Retry-After")
					return c.SendStatus(429)
				})), limits(nil, sash.PerSecond(0)), httplimit.WithoutRateLimit())
				r := b.get("/success")
				require.Equal(t, 429, r.status)
				require.Empty(t, r.header.Get("Retry-After"))
			},
		},
		{
			what: "when headers are made", peer: "after the handler: they tell what is left then",
			sash:  "different: before it, since a handler may send its headers at any time; they tell what was left at the decision",
			tests: []string{"Test_Limiter_Sliding_Window_RecalculatesAfterHandlerDelay", "Test_Limiter_Sliding_Window_SkipFailedRequests_DecrementsPreviousWindow"},
			check: func(t *testing.T) {
				p := limits(nil, sash.PerSecond(2))
				p.Charge = succeeded
				var b *bed
				b = newBed(t, func(l *httplimit.Limiter) any {
					return fiberApp(l, func(c fiber.Ctx) error {
						b.clock.Advance(600 * time.Millisecond)
						return c.SendStatus(400)
					})
				}, p)
				for range 3 { // each is given back after its headers were made
					require.Equal(t, `"all";r=1;t=1`, b.get("/fail").header.Get("RateLimit"))
				}
			},
		},
		{
			what: "a storage that fails", peer: "the request is answered 500 by the ErrorHandler",
			sash:  "different: the fallback of the store decides; if it denies, 503 with Retry-After, and WithDenied is given the error",
			tests: []string{"TestLimiterFixedStorageGetError", "TestLimiterFixedStorageSetError"},
			check: func(t *testing.T) {
				s := &testStore{fault: errors.New("boom")}
				b := newStoreBed(t, fiberHello(), limits(nil, sash.PerHour(1)), s.option())
				r := b.get("/success")
				require.Equal(t, 503, r.status)
				require.Equal(t, "1", r.header.Get("Retry-After"))
				require.NotContains(t, r.body, "boom")
				b = newStoreBed(t, fiberHello(fiberlimit.WithDenied(func(_ fiber.Ctx, d httplimit.Denial) error { return d.Err })), limits(nil, sash.PerHour(1)), s.option())
				r = b.get("/success")
				require.Equal(t, reply{500, "boom", r.header}, r)
			},
		},
		{
			what: "keys in errors", peer: "are redacted, unless `DisableValueRedaction` is set",
			sash:  "the same: events have no identities, unless WithEventIdentities asks for them",
			tests: []string{"TestLimiterFixedStorageGetError", "TestLimiterFixedStorageGetErrorDisableRedaction", "TestLimiterFixedStorageSetErrorDisableRedaction"},
			check: func(t *testing.T) {
				for _, options := range [][]httplimit.Option{nil, {httplimit.WithEventIdentities()}} {
					var told []string
					observe := httplimit.WithObserver(func(e httplimit.Event) { told = append(told, e.Identity+e.Err.Error()) })
					byClient := fiberlimit.By(func(fiber.Ctx) (string, bool) { return "client ", true })
					b := newStoreBed(t, fiberHello(), append(options, observe, limits(byClient, sash.PerHour(1)), (&testStore{fault: errors.New("boom")}).option())...)
					b.get("/success")
					require.Equal(t, []string{map[bool]string{true: "client "}[options != nil] + "boom"}, told)
				}
			},
		},
		{
			what: "a storage that fails after the handler", peer: "its error replaces the answer",
			sash:  "different: the answer stays, and so does the charge; observers are told",
			tests: []string{"TestLimiterFixedStorageSetErrorOnSkipSuccessfulRequests"},
			check: func(t *testing.T) {
				p := limits(nil, sash.PerHour(1))
				p.Charge = failed
				var told error
				b := newStoreBed(t, fiberHello(), p, (&testStore{commitFault: errors.New("boom")}).option(),
					httplimit.WithObserver(func(e httplimit.Event) { told = errors.Join(told, e.Err) }))
				require.Equal(t, 200, b.get("/success").status)
				require.ErrorContains(t, told, "boom")
			},
		},
		{
			what: "the context of the storage", peer: "is the request's, with its values and its cancellation",
			sash:  "different: it has the values, but does not end: a client that hangs up must not choose the fallback",
			tests: []string{"TestLimiterFixedPropagatesRequestContextToStorage", "TestLimiterSlidingPropagatesRequestContextToStorage"},
			check: func(t *testing.T) {
				type mark struct{}
				s := &testStore{}
				b := newStoreBed(t, func(l *httplimit.Limiter) any {
					app := fiber.New()
					app.Use(func(c fiber.Ctx) error {
						ctx, cancel := context.WithCancel(context.WithValue(c.Context(), mark{}, "here"))
						cancel()
						c.SetContext(ctx)
						return c.Next()
					})
					app.Get("/:status", fiberlimit.New(l), fiberStatus)
					return app
				}, limits(nil, sash.PerHour(1)), s.option())
				require.Equal(t, 200, b.get("/success").status)
				require.Len(t, s.calls, 1)
				require.Equal(t, "here", s.calls[0].Value(mark{}))
				require.NoError(t, s.calls[0].Err())
			},
		},
		{
			what: "calls of the storage", peer: "one look and one write, and two more for headers of a sliding window",
			sash:  "different: one call, with headers too, and one more if the charge changes after the answer",
			tests: []string{"TestLimiterSlidingSkipsPostUpdateWhenHeadersDisabled"},
			check: func(t *testing.T) {
				s := &testStore{}
				b := newStoreBed(t, fiberHello(), limits(nil, sash.PerHour(1)), s.option(), httplimit.WithXRateLimit())
				require.Equal(t, 200, b.get("/success").status)
				require.Len(t, s.calls, 1)
			},
		},
	},
	left: map[string]string{
		"TestMarshalUnmarshalitem": "is about the form of its items in a storage",
		"TestEncodeDecodeitem":     "is about the form of its items in a storage",
	},
}

func succeeded(status int) bool { return status < http.StatusBadRequest }

func failed(status int) bool { return status >= http.StatusBadRequest }

// planned returns a policy with limits for all, and others for the plan that all have.
func planned(all, plan sash.Limit) httplimit.Policy {
	p := limits(nil, all)
	p.Plan = func(*http.Request) string { return "plan" }
	p.Plans = map[string][]sash.Limit{"plan": {plan}}
	return p
}

// fiberStatus answers /fail by 400, /error by an error, and all else by 200.
func fiberStatus(c fiber.Ctx) error {
	switch c.Params("status") {
	case "fail":
		return c.SendStatus(fiber.StatusBadRequest)
	case "error":
		return fiber.NewErrorf(fiber.StatusInternalServerError, "Error")
	}
	return c.SendStatus(fiber.StatusOK)
}

// fiberApp is an app that answers all by one handler, behind the limiter.
func fiberApp(l *httplimit.Limiter, handler fiber.Handler, options ...fiberlimit.Option) *fiber.App {
	app := fiber.New()
	app.Use(fiberlimit.New(l, options...))
	app.Get("/", handler)
	app.Get("/:status", handler)
	return app
}

// fiberHello is an app that answers by fiberStatus, behind the limiter with these options.
func fiberHello(options ...fiberlimit.Option) func(*httplimit.Limiter) any {
	return func(l *httplimit.Limiter) any { return fiberApp(l, fiberStatus, options...) }
}

// checkFiberCharge checks the statuses of requests for these paths, under a limit of that many in 2 s and a
// policy that keeps the charges of those statuses. Then a window passes, and all is there again.
func checkFiberCharge(count int64, charge func(int) bool, paths []string, want []int) func(*testing.T) {
	return func(t *testing.T) {
		p := limits(nil, sash.Per(count, 2*time.Second))
		p.Charge = charge
		b := newBed(t, fiberHello(), p)
		require.Equal(t, want, b.gets(paths...))
		b.clock.Advance(2 * time.Second)
		require.Equal(t, want[:1], b.gets(paths[0]))
	}
}
