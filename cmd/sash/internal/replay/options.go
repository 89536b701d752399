package replay

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// options are the settings of the command line.
type options struct {
	traffic.Settings
	limits   policy
	together bool
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
		return fmt.Errorf("-limit %q bounds what is under way: a log tells when a request came, and not how long it took, "+
			"so it cannot be replayed", l)
	}
	return nil
}

// windows returns the windows of all limits.
func (o *options) windows() (all []time.Duration) {
	for _, l := range o.limits {
		if !slices.Contains(all, l.Window) {
			all = append(all, l.Window)
		}
	}
	return all
}

// checkCosts refuses flags that have no meaning without another flag.
func (o *options) checkCosts() error {
	var faults []error
	given := map[string]bool{} // flags given, even with a value that is refused
	o.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
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

func (o *options) check() error {
	faults := []error{o.Settings.Check(), o.checkCosts()}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(o.limits) == 0 {
		fault("no -limit, want one or more such as -limit \"60/60s log\"")
	}
	if o.top < 0 {
		fault("-top must be >= 0, got %d", o.top)
	}
	return errors.Join(faults...)
}

const usageText = `Usage: sash replay -limit LIMIT [flags] [FILE...]

Replays access logs through the limiter on a clock driven by the log's own
times, and reports what each limit would have denied, to whom, when, and how
far its answers are from the exact log's. A token bucket is exact itself.

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
  sash replay -limit 600000/m -time TIMESTAMP -estimate ContextTokens \
    -cost ContextTokens+GeneratedTokens -settle 5s calls.csv.gz

Flags:
`

func (o *options) usage(w io.Writer) {
	io.WriteString(w, usageText)
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	io.WriteString(w, "\nExit status: 0; 1 if a file could not be read, or not to its end, or held\nnothing readable or not the fields that flags name; 2 for a wrong command\nline; 130 if interrupted.\n")
}
