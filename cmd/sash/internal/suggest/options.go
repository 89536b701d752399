package suggest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// options are the settings of the command line.
type options struct {
	windows    []time.Duration
	percentile float64
	headroom   float64
	top        int
	json       bool
	svg        string // the file of the picture; none if empty
	key        traffic.Key
	columns    traffic.Columns
	files      []string

	flags *flag.FlagSet
}

// longestWindow is the longest of which the recording can have enough.
const longestWindow = math.MaxInt64 / enoughWindows * time.Nanosecond

// theWindows are the windows if there is no -window.
var theWindows = []time.Duration{time.Second, time.Minute, time.Hour}

// parseArgs reads the command line. Its error names every fault found, or is flag.ErrHelp.
// The options can print the usage in any case.
func parseArgs(args []string) (*options, error) {
	o := &options{key: traffic.Key{traffic.Addr}, flags: flag.NewFlagSet("sash suggest", flag.ContinueOnError)}
	o.flags.SetOutput(io.Discard) // Run prints errors and usage
	var faults []error
	var key *string // it names fields, or columns if there is -time
	// The functions return no error, because flag would stop at the first.
	read := func(name, usage string, set func(string) error) {
		o.flags.Func(name, usage, func(s string) error {
			faults = append(faults, set(s))
			return nil
		})
	}
	read("window", "suggest a limit for windows of this `DURATION`, instead of 1s, 1m and 1h; repeat it for several: -window 10s -window 7d", o.addWindow)
	read("time", "read CSV with a header, in which this `COLUMN` has the time: -time TIMESTAMP", o.setTime)
	read("cost", "the `SUM` of columns that an event costs, instead of 1: -cost ContextTokens+GeneratedTokens", o.setCost)
	read("key", "the `FIELDS` that identify a client, joined by commas, such as addr,path, of "+strings.Join(traffic.FieldNames[:], " ")+" (default addr); with -time any columns", func(s string) error {
		key = &s
		return nil
	})
	o.reportFlags()
	if err := o.flags.Parse(args); err != nil {
		return o, errors.Join(append(faults, err)...)
	}
	o.setDefaults()
	if key != nil {
		faults = append(faults, o.setKey(*key))
	}
	return o, errors.Join(append(faults, o.check())...)
}

func (o *options) reportFlags() {
	o.flags.Float64Var(&o.percentile, "percentile", 99.9, "leave this `PERCENT` of the clients alone: -percentile 99")
	o.flags.Float64Var(&o.headroom, "headroom", 1.5, "suggest this `FACTOR` times what the busiest of them had, or the next round number: -headroom 2")
	o.flags.IntVar(&o.top, "top", 8, "show the `N` clients that exceed the suggested limits most: -top 20")
	o.flags.BoolVar(&o.json, "json", false, "report as JSON, one object: -json")
	o.flags.StringVar(&o.svg, "svg", "", "also draw the distribution and the candidates into this `FILE`: -svg limits.svg")
}

func (o *options) setDefaults() {
	o.files = o.flags.Args()
	if len(o.files) == 0 {
		o.files = []string{traffic.StandardInput}
	}
	if len(o.windows) == 0 {
		o.windows = slices.Clone(theWindows)
	}
	slices.Sort(o.windows)
}

func (o *options) addWindow(s string) error {
	l, err := sash.ParseLimit("1/" + s + " log")
	d := l.Window
	switch {
	case err != nil:
		return fmt.Errorf("-window: %s is no length of a window, want one such as 10s, 5m, 24h or 7d", traffic.Clip(s))
	case d > longestWindow:
		return fmt.Errorf("-window must be at most %v, got %v", longestWindow, d)
	case slices.Contains(o.windows, d):
		return fmt.Errorf("-window: %s is given twice", short(d))
	}
	o.windows = append(o.windows, d)
	return nil
}

func (o *options) setTime(s string) error {
	if o.columns.Time = strings.TrimSpace(s); o.columns.Time == "" {
		return fmt.Errorf("-time: %s names no column", traffic.Clip(s))
	}
	return nil
}

func (o *options) setCost(s string) (err error) {
	if o.columns.Cost, err = traffic.ParseSum(s); err != nil {
		return fmt.Errorf("-cost: %w", err)
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

func (o *options) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !(o.percentile > 0 && o.percentile <= 100) {
		fault("-percentile must be > 0 and <= 100, got %v", o.percentile)
	}
	if !(o.headroom >= 1 && o.headroom <= math.MaxInt32) {
		fault("-headroom must be >= 1, got %v: less would deny clients that it is to leave alone", o.headroom)
	}
	if o.top < 0 {
		fault("-top must be >= 0, got %d", o.top)
	}
	if o.columns.Cost != nil && !o.columns.IsCSV() {
		fault("-cost needs -time, the column of the time: only a CSV has costs")
	}
	return errors.Join(append(faults, o.checkFiles())...)
}

func (o *options) checkFiles() error {
	var faults []error
	inputs := 0
	for _, name := range o.files {
		switch {
		case name == traffic.StandardInput:
			inputs++
		case strings.HasPrefix(name, "-"):
			faults = append(faults, fmt.Errorf("%s comes after a FILE: flags stand before them; a file of that name is ./%s", name, name))
		}
	}
	if inputs > 1 {
		faults = append(faults, fmt.Errorf("standard input is named %d times, want once", inputs))
	}
	return errors.Join(faults...)
}

// unit returns what limits count.
func (o *options) unit() string {
	if o.columns.Cost == nil {
		return "events"
	}
	return "units of " + o.columns.Cost.String()
}

// input returns the words of a command line that reads the same events.
func (o *options) input() (words []string) {
	o.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "time":
			words = append(words, "-time", quoted(o.columns.Time))
		case "cost":
			words = append(words, "-cost", quoted(o.columns.Cost.String()))
		case "key":
			words = append(words, "-key", quoted(o.keyNames()))
		}
	})
	for _, name := range o.files {
		words = append(words, quoted(name))
	}
	return words
}

// keyNames returns the names of the fields or columns that identify a client.
func (o *options) keyNames() string {
	if o.columns.IsCSV() {
		return strings.Join(o.columns.Key, ",")
	}
	return o.key.String()
}

const usageText = `Usage: sash suggest [flags] [FILE...]

Suggests limits from recorded traffic. It measures each client's busiest window,
wherever that begins, and says which clients and events each limit would have
denied. A suggested limit leaves 99.9% of the clients alone, with headroom.

It reads what sash replay reads: access logs in Common or Combined Log Format, or
a .tsv of Unix microseconds and client; with -time CSV. A FILE is plain or gzip;
none or "-" is standard input. Several are one stream, merged by time.

  sash suggest access.log access.log.1.gz
  sash suggest -percentile 99 -headroom 2 -svg limits.svg access.log
  zcat access.log.*.gz | grep '"POST /login' | sash suggest -window 1m -window 1h
  sash suggest -time TIMESTAMP -cost ContextTokens+GeneratedTokens calls.csv.gz

Flags:
`

func (o *options) usage(w io.Writer) {
	io.WriteString(w, usageText)
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	io.WriteString(w, "\nExit status: 0; 1 if a file could not be read, or not to its end, or held\nnothing readable or not the columns that flags name, or if the picture could not\nbe written; 2 for a wrong command line; 130 if interrupted.\n")
}
