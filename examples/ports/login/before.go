// Package login is a login that limits guesses: with httprate, and with sash.
package login

import (
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

// Before limits the logins of each address and of each account.
func Before(logIn http.Handler) http.Handler {
	byAddress := httprate.Limit(5, time.Minute, httprate.WithKeyFuncs(httprate.KeyByIP))
	byAccount := httprate.Limit(10, time.Hour, httprate.WithKeyFuncs(func(r *http.Request) (string, error) {
		return r.FormValue("account"), nil
	}))
	return byAddress(byAccount(logIn))
}
