package api

import (
	"net/http"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// After limits the requests to next. Close the limiter when the service ends.
func After(next http.Handler, options ...httplimit.Option) (http.Handler, *httplimit.Limiter) {
	limiter := httplimit.Must(httplimit.New(append(options, httplimit.Policy{
		Name: "api", Limits: []sash.Limit{sash.PerSecond(2).TokenBucket(4)}, Key: httplimit.ByAddress(),
	})...))
	return limiter.Middleware(next), limiter
}
