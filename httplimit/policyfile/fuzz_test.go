package policyfile_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// FuzzParse checks that no data makes Parse panic, that each fault has a place in the data, in
// order, and that New takes the policies of data without faults, which decide a request.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/limits.yaml", "testdata/limits.json"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{
		"", "\t", "policies: &a [*a]", "- ? {? \n", "\"\\ud800\"", "{\"a\":1e999}", "a: |0#\n", "! !00 \xf6", "&0: *0\n*0:\n*0:", "\xff\xfea\x00",
		"policies: [{name: a, limits: [1/s, 2/m log], key: {join: [account, route]}, cost: 5, settle: {header: a}, charge: [401, 4xx]}]",
		"policies: [{name: a, limits: 1/s, key: {address: {trust-hops: 1, read-forwarded: true}}, skip: {networks: '::1', methods: [GET]}}]",
		"policies: [{name: a, limits: 1/s, key: everyone, plan: {header: P}, plans: {'': 1/s, a: [2/s, 3/h], b: unlimited}}]",
		"policies: [{name: a, limits: [10/s, 9/m burst 7], key: everyone, leave: {header: C, classes: {a: 20%, '': 5}}}]",
		"policies: [{name: a, limits: 10/s, key: everyone, near: 20%}, {name: b, limits: 10/s, key: everyone, near: 101%}]",
		"policies: [{name: a, limits: 9223372036854775807/s, key: everyone, leave: 99%}, {name: b, limits: unlimited, key: everyone, leave: 1%}]",
		"policies: [{name: a, limits: 0/s, key: everyone, queue: {wait: 1ns, requests: 1}, shadow: true, unit: x, pattern: 'GET a.b/{c...}'}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"a.yaml", "a.json"} {
			policies, err := policyfile.Parse(name, data, account)
			if err != nil {
				checkFaults(t, data, err)
				continue
			}
			checkPolicies(t, policies)
		}
	})
}

func checkFaults(t *testing.T, data []byte, err error) {
	var faults policyfile.Errors
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("no faults: %v", err)
	}
	before := faults[0]
	for _, fault := range faults {
		if fault.Line < 1 || fault.Column < 1 || fault.Line > len(data)+2 || fault.Column > len(data)+2 {
			t.Fatalf("not in the file: %v", fault)
		}
		if fault.Line < before.Line || fault.Line == before.Line && fault.Column < before.Column {
			t.Fatalf("not in order: %v before %v", before, fault)
		}
		if fault.Err == nil || fault.Err.Error() == "" {
			t.Fatalf("nothing is wrong: %v", fault)
		}
		before = fault
	}
}

func checkPolicies(t *testing.T, policies []httplimit.Policy) {
	var options []httplimit.Option
	for _, p := range policies {
		if p.Charge != nil {
			p.Charge(401)
		}
		p.Queue = httplimit.Queue{} // the request must not wait
		options = append(options, p)
	}
	limiter, err := httplimit.New(options...)
	if err != nil {
		t.Fatalf("New refuses what Parse has read: %v", err)
	}
	defer limiter.Close()
	v := limiter.Decide(nil, httptest.NewRequest("GET", "/", nil))
	v.Charges.Settle(httplimit.Response{Status: 200, Bytes: 1})
	if v.Outcome == httplimit.Failed {
		t.Fatal("a function of a policy has panicked")
	}
}
