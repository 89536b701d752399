package login

import (
	"net/http"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// After limits the logins that fail, of each address and of each account. Close the limiter when the service ends.
func After(logIn http.Handler, options ...httplimit.Option) (http.Handler, *httplimit.Limiter) {
	failed := func(status int) bool { return status == http.StatusUnauthorized }
	account := func(r *http.Request) (string, bool) { return r.FormValue("account"), true }
	limiter := httplimit.Must(httplimit.New(append(options,
		httplimit.Policy{Name: "addresses", Limits: []sash.Limit{sash.PerMinute(5).Log()}, Key: httplimit.ByAddress(), Charge: failed},
		httplimit.Policy{Name: "accounts", Limits: []sash.Limit{sash.PerHour(10).Log()}, Key: httplimit.By(account), Charge: failed},
	)...))
	return limiter.Middleware(logIn), limiter
}
