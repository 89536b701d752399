package policyfile_test

import (
	"context"
	"expvar"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

func ExampleLoad() {
	policies, err := policyfile.Load("testdata/limits.yaml",
		policyfile.WithKey("account", httplimit.ByHeader("X-Account")))
	if err != nil {
		panic(err)
	}
	var options []httplimit.Option
	for _, p := range policies {
		options = append(options, p)
	}
	limiter := httplimit.Must(httplimit.New(options...))
	defer limiter.Close()

	handler := limiter.Middleware(http.NotFoundHandler())
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/api/orders", nil))
	for _, quota := range answer.Header()["Ratelimit-Policy"] {
		fmt.Println(quota)
	}
	// Output:
	// "all";q=4000;w=2, "api-1m";q=100;w=60, "api-24h";q=5000;w=86400
}

func ExampleParse_faults() {
	_, err := policyfile.Parse("limits.yaml", []byte(`
policies:
  - name: api
    pattern: /api/
    limits: [100/m, 5000r/day]
    key: adress
  - name: login
    pattrn: POST /login
    limits: 5/h
    key: address
`))
	fmt.Println(err)
	// Output:
	// limits.yaml:5:21: policies[0].limits[1]: sash: limit "5000r/day", did you mean "5000/day"?: count "5000r" is not a whole number of 64 bits: invalid limit
	// limits.yaml:6:10: policies[0].key: nothing is named "adress", did you mean "address"?; known are address, everyone, route; the program adds names by WithKey
	// limits.yaml:8:5: policies[1].pattrn: unknown field, did you mean "pattern"?; the fields are name, pattern, limits, plan, plans, key, cost, leave, near, unit, skip, charge, charge-uncertain, settle, queue, shadow
}

// The limits of a server follow the file, and a metric tells whether they do.
func ExampleWatcher() {
	var limiter *httplimit.Limiter // of New, with the policies of the same file
	upToDate := expvar.NewInt("limits_up_to_date")

	w := &policyfile.Watcher{Observe: func(err error) {
		if err == nil {
			upToDate.Set(1)
		} else {
			upToDate.Set(0)
		}
	}}
	go w.Watch(context.Background(), "limits.yaml", limiter)
}
