package replay

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// options are the settings of the command line.
type options struct {
	limits   policy
	together bool
	key      traffic.Key     // of a log
	columns  traffic.Columns // of a CSV
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
	o := &options{key: traffic.Key{traffic.Addr}, flags: flag.NewFlagSet("sash replay", flag.ContinueOnError)}
	o.flags.SetOutput(io.Discard) // run prints errors and usage
	var faults []error
	var key *string // it names fields, or columns if there is -time
	// The functions return no error, because flag would stop at the first.
	read := func(name, usage string, set func(string) error) {
		o.flags.Func(name, usage, func(s string) error {
			faults = append(faults, set(s))
			return nil
		})
	}
	o.limitFlags(read)
	o.csvFlags(read)
	read("key", keyUsage, func(s string) error {
		key = &s
		return nil
	})
	o.reportFlags()
	if err := o.flags.Parse(args); err != nil {
		return o, errors.Join(append(faults, err)...)
	}
	o.files = o.flags.Args()
	if len(o.files) == 0 {
		o.files = []string{traffic.StandardInput}
	}
	if key != nil {
		faults = append(faults, o.setKey(*key))
	}
	return o, errors.Join(append(faults, o.check())...)
}

// reader defines a flag whose value is read by set.
type reader func(name, usage string, set func(string) error)

func (o *options) limitFlags(read reader) {
	read("limit", "replay this `LIMIT`, such as 100/m, \"60/60s log\", \"240/h buckets 1m\", \"10/s burst 100\" or \"10/s counter\"; a count of at most 16 without such a word is a log; repeat it to compare several", o.addLimit)
	o.flags.BoolVar(&o.together, "together", false, "make all limits one policy, each of which must admit an event, instead of comparing them: -together -limit 10/s -limit 240/h")
}

func (o *options) csvFlags(read reader) {
	read("time", "read CSV with a header, in which this `COLUMN` has the time, such as 2023-11-16 18:15:46.68 (UTC) or 2023-11-16T18:15:46Z: -time TIMESTAMP", o.setTime)
	read("cost", "the `SUM` of columns that an event costs, instead of 1: -cost ContextTokens+GeneratedTokens", func(s string) error {
		return setSum(&o.columns.Cost, "cost", s)
	})
	read("estimate", "the `SUM` of columns and numbers that an event reserves, to be settled to its cost if it is admitted: -estimate ContextTokens+500", func(s string) error {
		return setSum(&o.columns.Estimate, "estimate", s)
	})
	o.flags.DurationVar(&o.settle, "settle", 0, "settle a reservation this `DURATION` after its event, by the log's clock, instead of at once: -settle 5s")
}

var keyUsage = "the `FIELDS` that identify a client, joined by commas, such as addr,path, of " + strings.Join(traffic.FieldNames[:], " ") +
	"; addr is the client column in a .tsv, path has no query (default addr); with -time any columns, such as model,user (default none: all events are one client's)"

func (o *options) reportFlags() {
	o.flags.IntVar(&o.top, "top", 5, "show the `N` clients denied most under each limit: -top 20")
	o.flags.BoolVar(&o.json, "json", false, "report as JSON, one object a line: -json")
	o.flags.BoolVar(&o.each, "each", false, "replay each FILE on its own instead of all as one stream: -each monday.log tuesday.log")
}

func (o *options) addLimit(s string) error {
	l, err := sash.ParseLimit(s)
	o.limits = append(o.limits, l)
	if err != nil {
		return fmt.Errorf("-limit: %w", err)
	}
	return nil
}

func (o *options) setTime(s string) error {
	if o.columns.Time = strings.TrimSpace(s); o.columns.Time == "" {
		return fmt.Errorf("-time: %s names no column", traffic.Clip(s))
	}
	return nil
}

func setSum(to **traffic.Sum, flag, s string) (err error) {
	if *to, err = traffic.ParseSum(s); err != nil {
		return fmt.Errorf("-%s: %w", flag, err)
	}
	return nil
}

// setKey reads the columns of a CSV, or the fields of a log.
func (o *options) setKey(s string) (err error) {
	if o.columns.IsCSV() {
		o.columns.Key, err = traffic.ParseColumns(s)
	} else {
		o.key, err = traffic.ParseKey(s)
	}
	return err
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
	needs("cost", "time", "the column of the time: only a CSV has costs")
	needs("estimate", "cost", "what a reservation is settled to")
	needs("settle", "estimate", "what is reserved until then")
	if o.settle < 0 {
		faults = append(faults, fmt.Errorf("-settle must be >= 0, got %v", o.settle))
	}
	return errors.Join(faults...)
}

func (o *options) check() error {
	faults := []error{o.checkCosts()}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(o.limits) == 0 {
		fault("no -limit, want one or more such as -limit \"60/60s log\"")
	}
	if o.top < 0 {
		fault("-top must be >= 0, got %d", o.top)
	}
	inputs := 0
	for _, name := range o.files {
		switch {
		case name == traffic.StandardInput:
			inputs++
		case strings.HasPrefix(name, "-"):
			fault("%s comes after a FILE: flags stand before them; a file of that name is ./%s", name, name)
		}
	}
	if inputs > 1 {
		fault("standard input is named %d times, want once", inputs)
	}
	return errors.Join(faults...)
}

const usageText = `Usage: sash replay -limit LIMIT [flags] [FILE...]

Replays access logs through the limiter on a clock driven by the log's own
times, and reports what each limit would have denied, to whom, when, and how
far its answers are from the exact log's. A token bucket is exact itself.

A FILE is an access log in Common or Combined Log Format, or a .tsv of Unix
microseconds and client; with -time it is CSV, in which an event may have a cost
and an estimate of it. It is plain or gzip; none or "-" is standard input.
Several are one stream, merged by time.

  sash replay -limit "60/60s log" -limit 60/m access.log access.log.1.gz
  zcat access.log.*.gz | sash replay -limit 10/s -key addr,path -json
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
	io.WriteString(w, "\nExit status: 0; 1 if a file could not be read, or not to its end, or held\nnothing readable or not the columns that flags name; 2 for a wrong command\nline; 130 if interrupted.\n")
}
