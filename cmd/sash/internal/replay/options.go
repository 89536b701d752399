package replay

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// options are the settings of the command line.
type options struct {
	traffic.Settings
	limits   policy
	together bool
	policy   string         // the name of the file of policies that is replayed instead of limits
	shadow   bool           // whether its shadows deny nothing
	routes   *http.ServeMux // of -route; nil: there are none
	patterns []string       // of -route
	file     *policies.File // once it is read; nil without -policy
	needs    *needs         // of file
	settle   time.Duration
	top      int
	json     bool
	each     bool
	files    []string

	flags *flag.FlagSet
}

// parseArgs reads the command line. Its error names every fault found, or is flag.ErrHelp.
// The options can print the usage in any case.
func parseArgs(args []string) (*options, error) {
	o := &options{flags: flag.NewFlagSet("sash replay", flag.ContinueOnError)}
	o.flags.SetOutput(io.Discard) // Run prints errors and usage
	var faults []error
	fault := func(err error) { faults = append(faults, err) }
	o.limitFlags(fault)
	o.policyFlags(fault)
	o.Settings.Flags(o.flags, fault)
	o.Settings.EstimateFlag(o.flags, fault)
	o.reportFlags()
	if err := o.flags.Parse(args); err != nil {
		return o, errors.Join(append(faults, err)...)
	}
	var err error
	o.files, err = traffic.Files(o.flags.Args())
	return o, errors.Join(append(faults, o.check(), err)...)
}

// limitFlags defines the flags of limits.
func (o *options) limitFlags(fault func(error)) {
	traffic.Flag(o.flags, fault, "limit", "replay this `LIMIT`, such as 100/m, \"60/60s log\", \"240/h buckets 1m\", \"100/m parts\", \"10/s burst 100\" or \"10/s counter\"; without such a word it is a log up to a count of 16, and parts above; repeat it to compare several", o.addLimit)
	o.flags.BoolVar(&o.together, "together", false, "make all limits one policy, so that each must admit an event, instead of comparing them: -together -limit 10/s -limit 240/h")
}

// policyFlags defines the flags of policies.
func (o *options) policyFlags(fault func(error)) {
	traffic.Flag(o.flags, fault, "policy", "replay the policies of this `FILE` of YAML or JSON, as the middleware would enforce them: -policy limits.yaml", func(name string) error {
		if o.policy != "" || name == "" {
			return fmt.Errorf("-policy names one file, got %s and %s", traffic.Clip(o.policy), traffic.Clip(name))
		}
		o.policy = name
		return nil
	})
	o.flags.BoolVar(&o.shadow, "shadow", false, "let the policies that are shadows in the file of -policy deny nothing, as the file says, instead of replaying them as if they were enforced")
	traffic.Flag(o.flags, fault, "route", "of -policy, for the key route: the `PATTERN` of a handler that the middleware is put around; repeat it for each: -route 'GET /products/{id}' -route /cart/", func(pattern string) error {
		o.patterns = append(o.patterns, pattern)
		return nil
	})
}

func (o *options) reportFlags() {
	o.flags.DurationVar(&o.settle, "settle", 0, "settle a reservation this `DURATION` after its event, by the log's clock, instead of at once: -settle 5s")
	o.flags.IntVar(&o.top, "top", 5, "show the `N` clients denied most under each limit: -top 20")
	o.flags.BoolVar(&o.json, "json", false, "report as JSON, one object a line: -json")
	o.flags.BoolVar(&o.each, "each", false, "replay each FILE on its own instead of all as one stream: -each monday.log tuesday.log")
}

func (o *options) addLimit(s string) error {
	l, err := sash.ParseLimit(s)
	o.limits = append(o.limits, l)
	switch {
	case err != nil:
		return fmt.Errorf("-limit: %w", err)
	case l.Algorithm == sash.Concurrency:
		return fmt.Errorf("-limit %q bounds what is under way: it needs how long each request took, "+
			"which -policy reads from logs that have it", l)
	}
	return nil
}

// windows returns the windows of all limits.
func (o *options) windows() (all []time.Duration) {
	limits := o.limits
	if o.file != nil {
		for _, p := range o.file.Policies {
			limits = append(limits, p.AllLimits()...)
		}
	}
	for _, l := range limits {
		if l.Window > 0 && l.Algorithm != sash.Concurrency && !slices.Contains(all, l.Window) {
			all = append(all, l.Window)
		}
	}
	return all
}

// checkCosts refuses flags that have no meaning without another flag.
func (o *options) checkCosts() error {
	var faults []error
	given := o.given()
	needs := func(name, other, why string) {
		if given[name] && !given[other] {
			faults = append(faults, fmt.Errorf("-%s needs -%s, %s", name, other, why))
		}
	}
	needs("estimate", "cost", "what a reservation is settled to")
	needs("settle", "estimate", "what is reserved until then")
	if o.settle < 0 {
		faults = append(faults, fmt.Errorf("-settle must be >= 0, got %v", o.settle))
	}
	return errors.Join(faults...)
}

// given returns the flags that were given, even with a value that is refused.
func (o *options) given() map[string]bool {
	given := map[string]bool{}
	o.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
}

// checkPolicies refuses flags that have no meaning with -policy, or without it.
func (o *options) checkPolicies() error {
	var faults []error
	given := o.given()
	for _, f := range []struct{ name, why string }{
		{"limit", "has the limits"}, {"together", "says which limits belong together"},
		{"key", "says who a client is"}, {"trust", "names the proxies"},
		{"cost", "has the costs"}, {"estimate", "has the costs"}, {"settle", "says what is settled, at the end of each request"},
	} {
		if given["policy"] && given[f.name] {
			faults = append(faults, fmt.Errorf("-%s does not go with -policy, whose file %s", f.name, f.why))
		}
	}
	for _, name := range []string{"shadow", "route"} {
		if given[name] && !given["policy"] {
			faults = append(faults, fmt.Errorf("-%s needs -policy", name))
		}
	}
	if len(o.patterns) > 0 {
		var err error
		o.routes, err = routesOf(o.patterns)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (o *options) check() error {
	faults := []error{o.Settings.Check(), o.checkCosts(), o.checkPolicies()}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if given := o.given(); !given["limit"] && !given["policy"] {
		fault("no -limit and no -policy, want one or more such as -limit \"60/60s log\", or -policy limits.yaml")
	}
	if o.top < 0 {
		fault("-top must be >= 0, got %d", o.top)
	}
	return errors.Join(faults...)
}

const usageText = `Usage: sash replay -limit LIMIT [flags] [FILE...]
       sash replay -policy FILE [flags] [FILE...]

Replays access logs through the limiter on a clock driven by the log's own
times, and reports what each limit would have denied, to whom, when, and how
far its answers are from the exact log's. A token bucket is exact itself.
With -policy it replays the policies of a file instead, through the middleware.

A FILE is a log of Apache, nginx, HAProxy, Caddy, Traefik, IIS, Squid, Zeek, an AWS load
balancer, Amazon S3, CloudFront or Google Cloud Storage, or two columns of Unix
microseconds and client. With -time it is CSV with a header or JSON lines. The format
is detected, or named by -format, which also takes the configuration of nginx or Apache
as it stands. The prefixes of syslog, the journal, docker and Kubernetes are stripped. A
file is plain, gzip, zstd or bzip2; none or "-" is standard input. Several are one
stream, merged by time; none may be named twice.

  sash replay -limit "60/60s log" -limit 60/m access.log access.log.1.gz
  zcat access.log.*.gz | sash replay -limit 10/s -key addr/64,path -json
  sash replay -limit 10/s -time .ts -key .client.ip events.jsonl
  sash replay -together -limit 10/s -limit "240/h buckets 1m" access.log
  sash replay -limit "10/s burst 100" -limit "10/s log" access.log
  sash replay -policy limits.yaml access.log
  sash replay -limit 600000/m -time TIMESTAMP -estimate ContextTokens \
    -cost ContextTokens+GeneratedTokens -settle 5s calls.csv.gz

Flags:
`

func (o *options) usage(w io.Writer) {
	io.WriteString(w, usageText)
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	io.WriteString(w, "\nExit status: 0; 1 if a file could not be read, or not to its end, or held\nnothing readable or not the fields that flags and policies name, or if the\npolicies have faults; 2 for a wrong command line; 130 if interrupted.\n")
}
