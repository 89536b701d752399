package suggest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// options are the settings of the command line.
type options struct {
	traffic.Settings
	windows    []time.Duration
	percentile float64
	headroom   float64
	top        int
	json       bool
	svg        string       // the file of the picture; none if empty
	policy     string       // the file that the policy is added to; none if empty
	name       string       // of that policy; with -by it begins the name of each
	by         []traffic.By // the fields that events are grouped by, for each -by
	groups     int          // the number of groups to show
	file       *policyFile
	files      []string

	args  []string // the command line
	flags *flag.FlagSet
}

// longestWindow is the longest window that the recording can have enough of.
const longestWindow = math.MaxInt64 / enoughWindows * time.Nanosecond

// theWindows are the windows if there is no -window.
var theWindows = []time.Duration{time.Second, time.Minute, time.Hour}

// parseArgs reads the command line. Its error names every fault found, or is flag.ErrHelp.
// The options can print the usage in any case.
func parseArgs(args []string) (*options, error) {
	o := &options{args: args, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	o.flags.SetOutput(io.Discard) // Run prints errors and usage
	var faults []error
	fault := func(err error) { faults = append(faults, err) }
	o.ownFlags(o.flags, fault)
	o.Settings.Flags(o.flags, fault)
	if err := o.flags.Parse(args); err != nil {
		return o, errors.Join(append(faults, err)...)
	}
	if len(o.windows) == 0 {
		o.windows = slices.Clone(theWindows)
	}
	slices.Sort(o.windows)
	var err error
	o.files, err = traffic.Files(o.flags.Args())
	return o, errors.Join(append(faults, o.check(), err)...)
}

// ownFlags defines the flags that do not say how files are read.
func (o *options) ownFlags(flags *flag.FlagSet, fault func(error)) {
	traffic.Flag(flags, fault, "window", "suggest a limit for windows of this `DURATION`, instead of 1s, 1m and 1h; repeat it for several: -window 10s -window 7d", o.addWindow)
	flags.Float64Var(&o.percentile, "percentile", 99.9, "leave this `PERCENT` of the clients alone: -percentile 99")
	flags.Float64Var(&o.headroom, "headroom", 1.5, "suggest this `FACTOR` times what the busiest of them had, or the next round number: -headroom 2")
	flags.IntVar(&o.top, "top", 8, "show the `N` clients that exceed the suggested limits most: -top 20")
	flags.BoolVar(&o.json, "json", false, "report as JSON, one object: -json")
	flags.StringVar(&o.policy, "policy", "", "add the suggested policy to this `FILE` of package policyfile, or make the file: -policy limits.yaml")
	flags.StringVar(&o.name, "name", "", "the `NAME` of the policy for -policy, or with -by the beginning of all names: -name api (default \"suggested\", or the values of a group)")
	traffic.Flag(flags, fault, "by", "suggest limits for each group of events with the same `FIELDS`, joined by commas; repeat it for several tables: -by path -by status, -by method,path/1 for the first segment of the path, -by status/1 for its class", o.addBy)
	flags.IntVar(&o.groups, "groups", 20, "show the `N` groups of -by with most events, and count the others: -groups 100")
	flags.StringVar(&o.svg, "svg", "", "also draw the distribution and the candidates into this `FILE`: -svg limits.svg")
}

func (o *options) addBy(v string) error {
	by, err := traffic.ParseBy(v)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(o.by, func(other traffic.By) bool { return slices.Equal(by, other) }) {
		return fmt.Errorf("-by %s is given twice", by)
	}
	o.by, o.Fields = append(o.by, by), append(o.Fields, by.Fields()...)
	return nil
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
		return fmt.Errorf("-window: %s is given twice", output.Short(d))
	}
	o.windows = append(o.windows, d)
	return nil
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
	if o.groups < 1 {
		fault("-groups must be >= 1, got %d", o.groups)
	}
	if len(o.by) == 0 && o.given("groups") {
		fault("-groups needs -by, the fields that events are grouped by")
	}
	if len(o.by) > 0 && o.svg != "" {
		fault("-svg draws one group: leave out -by, and choose the group by -where")
	}
	return errors.Join(append(faults, o.Settings.Check(), o.checkPolicy())...)
}

// given reports whether a flag is on the command line.
func (o *options) given(name string) (found bool) {
	o.flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// checkPolicy opens the file of -policy.
func (o *options) checkPolicy() (err error) {
	if o.policy == "" {
		return nil
	}
	if o.file, err = openPolicyFile(o.policy); err == nil && len(o.by) == 0 {
		err = o.file.lacks(o.policyName()) // the names of groups are not known yet
	}
	return errors.Join(err, o.fileFaults())
}

// policyName returns the name of the policy for -policy, without -by.
func (o *options) policyName() string { return cmp.Or(o.name, "suggested") }

// unit returns what limits count.
func (o *options) unit() string {
	if o.Cost == nil {
		return "events"
	}
	return "units of " + o.Cost.String()
}

// input returns the words of a command line that reads the same events: all flags but
// suggest's own and those left out, and the files.
func (o *options) input(leftOut ...string) (words []string) {
	own := flag.NewFlagSet("", flag.ContinueOnError)
	new(options).ownFlags(own, func(error) {})
	own.VisitAll(func(f *flag.Flag) { leftOut = append(leftOut, f.Name) })
	return o.words(leftOut...)
}

// words returns the words of the command line, but for the flags left out.
func (o *options) words(leftOut ...string) (words []string) {
	given := o.args[:len(o.args)-o.flags.NArg()]
	for len(given) > 0 {
		name, _, inline := strings.Cut(strings.TrimLeft(given[0], "-"), "=")
		f, n := o.flags.Lookup(name), 2 // words
		if inline || f == nil || f.Name == "json" {
			n = 1
		}
		if f != nil && !slices.Contains(leftOut, name) {
			for _, word := range given[:n] {
				if f.Name == "format" {
					word = o.inOneLine(word)
				}
				words = append(words, quoted(word))
			}
		}
		given = given[n:]
	}
	for _, name := range o.files {
		words = append(words, quoted(name))
	}
	return words
}

// inOneLine returns a word of -format. A configuration of several lines becomes the format that it defines: with
// its lines indented, as commands are printed, it might define another.
func (o *options) inOneLine(word string) string {
	flag, _, inline := strings.Cut(word, "=")
	switch {
	case !strings.Contains(word, "\n"):
		return word
	case inline && strings.HasPrefix(flag, "-"):
		return flag + "=" + o.Format
	}
	return o.Format
}

const usageText = `Usage: sash suggest [flags] [FILE...]

Suggests limits from recorded traffic. It measures each client's busiest window,
wherever that begins, and says which clients and events each limit would have
denied. A suggested limit leaves 99.9% of the clients alone, with headroom. With -by
there is one for each route, status or other group of events.

It reads what sash replay reads: the logs of many servers, whose format is detected
or named by -format, or by the configuration of the server; with -time CSV with a
header or JSON lines. The prefixes of syslog, the journal, docker and Kubernetes are
stripped. A file is plain, gzip, zstd or bzip2; none or "-" is standard input. Several
are one stream, merged by time; none may be named twice.

  sash suggest access.log access.log.1.gz
  sash suggest -percentile 99 -headroom 2 -svg limits.svg access.log
  zcat access.log.*.gz | grep '"POST /login' | sash suggest -window 1m -window 1h
  sash suggest -policy limits.yaml -trust 10.0.0.0/8 access.log
  sash suggest -by path -by status access.log
  sash suggest -by method,path/1,status/1 access.log
  sash suggest -by path -groups 5 -where method=POST -policy limits.yaml access.log
  sash suggest -time TIMESTAMP -cost ContextTokens+GeneratedTokens calls.csv.gz

Flags:
`

func (o *options) usage(w io.Writer) {
	io.WriteString(w, usageText)
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	io.WriteString(w, "\nExit status: 0; 1 if a file could not be read, or not to its end, or held\nnothing readable or not the fields that flags name, and then no policy is\nwritten, or if the picture or the policy could not be\nwritten; 2 for a wrong command line; 130 if interrupted.\n")
}
