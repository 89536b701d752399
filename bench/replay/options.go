package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/seed-30da4c49/sash"
)

// options is what the command line says.
type options struct {
	limits []sash.Limit
	key    clientKey
	top    int
	json   bool
	each   bool
	files  []string

	flags *flag.FlagSet
}

// parseArgs reads the command line. Its error names every fault found, or is
// flag.ErrHelp; usage works either way.
func parseArgs(args []string) (*options, error) {
	o := &options{key: clientKey{addr}, flags: flag.NewFlagSet("replay", flag.ContinueOnError)}
	o.flags.SetOutput(io.Discard) // run prints errors and usage
	var faults []error
	// The functions report no error: flag would stop at the first.
	o.flags.Func("limit", "replay this `LIMIT`, such as 100/m, \"60/60s log\" or 5/250ms; repeat it to compare several", func(s string) error {
		faults = append(faults, o.addLimit(s))
		return nil
	})
	o.flags.Func("key", "the `FIELDS` that identify a client, joined by commas, of "+strings.Join(fieldNames[:], " ")+"; addr is the client column in a .tsv, path has no query (default addr)", func(s string) error {
		var err error
		o.key, err = parseKey(s)
		faults = append(faults, err)
		return nil
	})
	o.flags.IntVar(&o.top, "top", 5, "show the `N` clients denied most under each limit")
	o.flags.BoolVar(&o.json, "json", false, "report as JSON, one object a line")
	o.flags.BoolVar(&o.each, "each", false, "replay each FILE on its own instead of all as one stream")
	if err := o.flags.Parse(args); err != nil {
		return o, errors.Join(append(faults, err)...)
	}
	o.files = o.flags.Args()
	if len(o.files) == 0 {
		o.files = []string{standardInput}
	}
	return o, errors.Join(append(faults, o.check())...)
}

// addLimit adds a limit that the library reads and would run.
func (o *options) addLimit(s string) error {
	l, err := sash.ParseLimit(s)
	if err == nil {
		_, err = newTrial(l)
	}
	o.limits = append(o.limits, l)
	if err != nil {
		return fmt.Errorf("-limit: %w", err)
	}
	return nil
}

func (o *options) check() error {
	var faults []error
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
		case name == standardInput:
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

const usageText = `Usage: go run ./bench/replay -limit LIMIT [flags] [FILE...]

Replays access logs through the limiter on a clock driven by the log's own
times, and reports what each limit would have denied, to whom, when, and how
far its answers are from the exact log's.

A FILE is an access log in Common or Combined Log Format, or a .tsv of Unix
microseconds and client, plain or gzip; none or "-" is standard input. Several
are one stream, merged by time.

  go run ./bench/replay -limit "60/60s log" -limit 60/m access.log access.log.1.gz
  zcat access.log.*.gz | go run ./bench/replay -limit 10/s -key addr,path -json

Flags:
`

func (o *options) usage(w io.Writer) {
	io.WriteString(w, usageText)
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	io.WriteString(w, "\nExit status: 0; 1 if a file could not be read, or not to its end, or held\nnothing readable; 2 for a wrong command line; 130 if interrupted.\n")
}
