package main

import (
	"net/http"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// The functions of this file stand in docs/operators.md as well.

// policies returns the limits that were chosen: for all requests, and for failed logins.
func policies(shadow bool) []httplimit.Option {
	byAddress := httplimit.ByAddress() // behind a proxy: httplimit.ByAddress(httplimit.TrustProxies(…))
	all := httplimit.Policy{
		Name:   "all",
		Limits: []sash.Limit{sash.PerSecond(5), sash.PerMinute(20).Log(), sash.PerHour(300).Log()},
		Key:    byAddress,
		Shadow: shadow,
	}
	login := httplimit.Policy{
		Name:    "failed logins",
		Pattern: "POST /login",
		Limits:  []sash.Limit{sash.PerMinute(5), sash.PerHour(8)},
		Key:     byAddress,
		Charge:  func(status int) bool { return status == http.StatusUnauthorized },
		Shadow:  shadow,
	}
	return []httplimit.Option{all, login}
}
