package policyfile

import (
	"net/http"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
)

// An Option tells [Load] and [Parse] of a function that a file may name, or of the limiter.
// The functions of one kind have different names; of two with one name, the last holds.
type Option func(*options)

// options are the options of one Load or Parse.
type options struct {
	keys    map[string]httplimit.KeyFunc
	costs   map[string]func(*http.Request) int64
	leaves  map[string]func(*http.Request) int64
	skips   map[string]func(*http.Request) bool
	settles map[string]func(*httplimit.Response) int64
	plansOf map[string]func(*http.Request) string
	paths   route.Paths
}

func newOptions(given []Option) (o options) {
	o.keys = map[string]httplimit.KeyFunc{}
	o.costs = map[string]func(*http.Request) int64{}
	o.leaves = map[string]func(*http.Request) int64{}
	o.skips = map[string]func(*http.Request) bool{}
	o.settles = map[string]func(*httplimit.Response) int64{}
	o.plansOf = map[string]func(*http.Request) string{}
	for _, option := range given {
		if option == nil {
			panic("policyfile: an Option must not be nil")
		}
		option(&o)
	}
	return o
}

// WithKey lets files name key as the key of a policy, or as a part of one. WithKey panics if
// name is empty or one of address, everyone and route, or if key is nil.
func WithKey(name string, key httplimit.KeyFunc) Option {
	check("WithKey", name, key == nil, "address", "everyone", "route")
	return func(o *options) { o.keys[name] = key }
}

// WithCost lets files name cost as the cost of requests. WithCost panics if name is empty, or if
// cost is nil.
func WithCost(name string, cost func(*http.Request) int64) Option {
	check("WithCost", name, cost == nil)
	return func(o *options) { o.costs[name] = cost }
}

// WithLeave lets files name leave as the Leave of a policy. WithLeave panics if name is empty or ends in a
// percent sign, or if leave is nil.
func WithLeave(name string, leave func(*http.Request) int64) Option {
	check("WithLeave", name, leave == nil)
	if strings.HasSuffix(name, "%") { // it would be read as a share
		check("WithLeave", name, leave == nil, name)
	}
	return func(o *options) { o.leaves[name] = leave }
}

// WithSkip lets files name skip as the Skip of a policy. WithSkip panics if name is empty, or if
// skip is nil.
func WithSkip(name string, skip func(*http.Request) bool) Option {
	check("WithSkip", name, skip == nil)
	return func(o *options) { o.skips[name] = skip }
}

// WithSettle lets files name settle as the Settle of a policy. WithSettle panics if name is empty
// or one of bytes and estimate, or if settle is nil.
func WithSettle(name string, settle func(*httplimit.Response) int64) Option {
	check("WithSettle", name, settle == nil, "bytes", "estimate")
	return func(o *options) { o.settles[name] = settle }
}

// WithPlan lets files name plan as the Plan of a policy. WithPlan panics if name is empty, or if
// plan is nil.
func WithPlan(name string, plan func(*http.Request) string) Option {
	check("WithPlan", name, plan == nil)
	return func(o *options) { o.plansOf[name] = plan }
}

// WithPathFolding says that the policies are for a limiter with [httplimit.WithPathFolding]. The
// paths of their patterns must then be clean.
func WithPathFolding() Option {
	return func(o *options) { o.paths = route.Folded }
}

// check panics if the function of that name was given a name that files cannot use, or nil: that
// is a mistake in the program, not in a file.
func check(function, name string, isNil bool, reserved ...string) {
	if name == "" {
		panic("policyfile: " + function + ": the name must not be empty")
	}
	for _, word := range reserved {
		if name == word {
			panic("policyfile: " + function + ": " + quote(name) + " has a meaning of its own in files")
		}
	}
	if isNil {
		panic("policyfile: " + function + ": must not be given nil")
	}
}
