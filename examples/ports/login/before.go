// Package login is a login that limits guesses: with httprate, and with sash.
package login

import (
	"net"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

// Before limits the logins of each address and of each account.
func Before(logIn http.Handler) http.Handler {
	byAddress := httprate.LimitBy(5, time.Minute, func(r *http.Request) (string, error) {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(address), err
	})
	byAccount := httprate.LimitBy(10, time.Hour, func(r *http.Request) (string, error) {
		return r.FormValue("account"), nil
	})
	return byAddress(byAccount(logIn))
}
