// Command replay sends recorded traffic through the limiter, on a clock driven
// by the log's own times, and answers what an operator asks before switching a
// limit on: how many requests would be denied, to whom, when, and how far a
// limit's answers are from the exact log's.
//
//	go run ./bench/replay [flags] [FILE...]
//	go run ./bench/replay -limit "60/60s log" -limit 60/m access.log access.log.1.gz
//	zcat access.log.*.gz | go run ./bench/replay -limit 10/s -key addr,path
//	go run ./bench/replay -together -limit 10/s -limit "240/h buckets 1m" access.log
//	go run ./bench/replay -limit 600000/m -time TIMESTAMP -estimate ContextTokens \
//		-cost ContextTokens+GeneratedTokens -settle 5s calls.csv.gz
//
// A FILE is an access log in Common or Combined Log Format, or a .tsv of two
// columns, Unix microseconds and the client; plain or gzip, told apart by
// content. Without a FILE, or where one is "-", it reads standard input.
// Further fields after the user agent of a Combined line are passed over. With
// -time a FILE is CSV: see below.
//
// Several FILEs are one stream, merged by time; with -each every FILE is a
// replay of its own. Events are sorted by time before they are replayed, those
// of one instant staying in the order they were read in. So a log that is out
// of order, as those of servers that log at the end of a request are, is
// replayed as it happened. The report says how many lines were out of order:
// older than a line before them in the same FILE.
//
// That keeps all events in memory: 16 bytes for each, 32 if they have costs, up to
// twice that while reading, and each client's name once.
//
// # Limits
//
// Each -limit is replayed alone, on a clock of Unix time, so that the windows of
// a counter and the buckets of a limit are aligned to UTC. Beside every limit
// that is not exact itself runs the exact log of the same count and window, on
// the same events, each with its own history: an answer is wrongly admitted if
// the exact log denies that event, and wrongly denied if it admits it.
//
// With -together all of them are the limits of one limiter: an event is admitted
// if each admits it, and else charged to none. The report says how many denials
// each limit decided, being the one that would have to be waited for longest; of
// equals, the one given first. Beside it run the exact logs of all, together too.
//
// # CSV and costs
//
// With -time COLUMN a FILE is CSV, separated by commas, whose first line names the
// columns. A row is one line: a line break within quotes makes its lines
// unreadable. A time is date and time of day, in UTC if it names no zone. Clients
// are told apart by the columns of -key; without it all events are one client's.
//
// With -cost an event costs what the columns named there add up to, instead of
// one unit; a column that is no whole number, or is negative, makes the line
// unreadable. With -estimate a call reserves the estimate, as it would before its
// cost is known, and if admitted is settled to its cost: at once, or with -settle
// so much later by the log's clock, before any event of that instant. A summand of
// digits is a number: -estimate ContextTokens+500 reserves room for an answer.
//
// The report then says what limits do in units: asked, admitted and denied as
// estimated; what settling charges above the estimates and gives back, once all
// is settled; and what was spent, the costs of all that was admitted. What asks
// for more than Count is denied, and counted apart since no wait would admit it.
// The most that one client spent in one window is exact, with all of a cost at the
// time of its event, so that under an estimate it may pass the limit.
//
// # Lines
//
// A line that cannot be read is counted, shown by number with the reason, and
// skipped; so is a line of more than 256 KiB. Blank lines are counted apart. A
// line that ends inside its user agent lacks nothing that a replay needs: it is
// an event, and counted as cut short.
//
// A log whose lines begin with something else than the client, such as the virtual
// host in Apache's vhost_combined, would be read one field off. So a line cannot be
// read if its first field is neither an address nor a host name, if its ident is an
// address, or if its user is several fields of which one is "-". Cut what stands before
// the client first. A client that is "-" cannot be read where -key names addr.
//
// With -json the report is one object on one line, one for each FILE with -each.
// Its fields are those of the types report, traffic.FaultyLine, verdict, decision,
// account, peak and denials.
//
// The exit status is 0; 1 if a file could not be read, or not to its end, or
// held nothing readable or not the columns that flags name; 2 if the command line
// was wrong; 130 if interrupted, and then no report is written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed-30da4c49/sash/bench/internal/command"
	"github.com/seed-30da4c49/sash/bench/internal/progress"
)

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		return run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	})
}

// run is the command: its arguments and streams in, its exit status out.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		o.usage(stdout)
		return command.OK
	case err != nil:
		command.Say(stderr, "replay", err)
		fmt.Fprintln(stderr, "replay: -h explains the flags")
		return command.Usage
	}
	reports, err := o.replay(ctx, stdin, progress.On(stderr))
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "replay: interrupted, no report")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, "replay", err)
		return command.Failed
	}
	if err := write(stdout, reports, o.json); err != nil {
		command.Say(stderr, "replay", fmt.Errorf("writing the report: %w", err))
		return command.Failed
	}
	return complain(stderr, reports)
}

// complain says on stderr what a report does not cover, and returns the exit
// status that follows.
func complain(stderr io.Writer, reports []report) int {
	status := command.OK
	for _, r := range reports {
		for _, b := range r.BrokenOff {
			fmt.Fprintf(stderr, "replay: %s could be read to line %d only: %s\n", b.File, b.Line, b.Why)
			status = command.Failed
		}
		if r.Events == 0 {
			fmt.Fprintf(stderr, "replay: nothing readable in %s\n", r.source())
			status = command.Failed
		}
	}
	return status
}
