// Command printed runs policies that sash suggest has printed. Another file of the package, which
// a test generates, appends them to policies.
//
// It reads programs from standard input, by package gob, and writes a Result for each to standard
// output.
package main

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// policies return the policies that were printed.
var policies []func() httplimit.Policy

// A Program is requests that a policy decides.
type Program struct {
	Policy   int
	Enforced bool // without Shadow
	Requests []Request
}

// A Request is what a server knows of a request, and its response.
type Request struct {
	At                   int64 // the clock
	Remote               string
	Forwarded            []string // X-Forwarded-For
	Method, Target, Host string
	Agent, Referer       string
	Fields               []string // what the operator's own code takes from it
	Cost                 int64    // by the operator's own code
	Size                 int64    // of the response's body
}

// A Result has the limits of the policy, and for each request a byte, the first letter of its outcome,
// and the identity of its client.
type Result struct {
	Limits     []sash.Limit
	Outcomes   []byte
	Identities []string
	Fault      string
}

// field is the httplimit.KeyFunc that an operator writes in place of the i-th "…" of a key.
func field(i int) httplimit.KeyFunc {
	return httplimit.By(func(r *http.Request) (string, bool) { return r.Header["Field"][i], true })
}

// cost is the Cost that an operator writes.
func cost(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// fromFile returns the policy of that name in a file.
func fromFile(text, name string) httplimit.Policy {
	policies, err := policyfile.Parse("limits.yaml", []byte(text))
	if err != nil {
		panic(err)
	}
	return policies[slices.IndexFunc(policies, func(p httplimit.Policy) bool { return p.Name == name })]
}

func main() {
	in, out := gob.NewDecoder(bufio.NewReader(os.Stdin)), bufio.NewWriter(os.Stdout)
	results := gob.NewEncoder(out)
	for {
		var p Program
		err := in.Decode(&p)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = results.Encode(p.run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	out.Flush()
}

// run sends the requests through the middleware.
func (p *Program) run() (result Result) {
	policy := policies[p.Policy]()
	if p.Enforced {
		policy.Shadow = false
	}
	clock := sash.NewManualClock(0)
	var event httplimit.Event
	limiter, err := httplimit.New(policy, httplimit.WithClock(clock), httplimit.WithSweepInterval(-1),
		httplimit.WithObserver(func(e httplimit.Event) {
			if e.Outcome != httplimit.Settled && e.Outcome != httplimit.GivenBack { // which come after the response
				event = e
			}
		}), httplimit.WithEventIdentities())
	if err != nil {
		return Result{Fault: err.Error()}
	}
	defer limiter.Close()
	result.Limits = policy.Limits
	served := false
	handler := limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served = true
		respond(w, r)
	}))
	for i := range p.Requests {
		r, err := p.Requests[i].request()
		if err != nil {
			return Result{Fault: err.Error()}
		}
		clock.Set(p.Requests[i].At)
		served = false
		handler.ServeHTTP(&response{http.Header{}}, r)
		if served != (event.Outcome == httplimit.Admitted || !p.Enforced) {
			return Result{Fault: fmt.Sprintf("request %d: %v, and served: %t", i, event.Outcome, served)}
		}
		result.Outcomes = append(result.Outcomes, event.Outcome.String()[0])
		result.Identities = append(result.Identities, event.Identity)
	}
	return result
}

var page [1 << 16]byte

// respond answers with as many bytes as the request says.
func respond(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	size, err := strconv.Atoi(r.Header.Get("Size"))
	if err != nil {
		panic(err)
	}
	for size > 0 {
		n, _ := w.Write(page[:min(size, len(page))])
		size -= n
	}
}

// request returns the request as net/http would read it.
func (q *Request) request() (*http.Request, error) {
	target, err := url.ParseRequestURI(q.Target)
	if err != nil {
		return nil, err
	}
	header := http.Header{"X-Forwarded-For": q.Forwarded, "User-Agent": {q.Agent}, "Referer": {q.Referer},
		"Field": q.Fields, "Cost": {strconv.FormatInt(q.Cost, 10)}, "Size": {strconv.FormatInt(q.Size, 10)}}
	return &http.Request{Method: q.Method, URL: target, RequestURI: q.Target, Host: q.Host, RemoteAddr: q.Remote,
		Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}, nil
}

// A response is a ResponseWriter that drops what is written.
type response struct{ header http.Header }

func (r *response) Header() http.Header            { return r.header }
func (r *response) WriteHeader(int)                {}
func (r *response) Write(text []byte) (int, error) { return len(text), nil }
