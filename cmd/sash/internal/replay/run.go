// Package replay is the subcommand that sends recorded traffic through the limiter, on a clock driven by the
// log's own times. It answers the questions of an operator before a limit is switched on:
// how many requests would be denied, of which clients, and when; and how far a limit's
// answers are from those of the exact log.
//
//	sash replay [flags] [FILE...]
//	sash replay -limit "60/60s log" -limit 60/m access.log access.log.1.gz
//	zcat access.log.*.gz | sash replay -limit 10/s -key addr,path
//	sash replay -together -limit 10/s -limit "240/h buckets 1m" access.log
//	sash replay -limit "10/s burst 100" -limit "10/s log" access.log
//	sash replay -limit 600000/m -time TIMESTAMP -estimate ContextTokens \
//		-cost ContextTokens+GeneratedTokens -settle 5s calls.csv.gz
//
// A FILE is an access log in Common or Combined Log Format, or a .tsv of two columns, Unix
// microseconds and the client. It is plain or gzip, recognized by its content. Without a
// FILE, or where one is "-", replay reads standard input. Further fields after the user
// agent of a Combined line are ignored. With -time a FILE is CSV: see below.
//
// Several FILEs are one stream, merged by time. With -each, every FILE is a replay of its
// own. Events are sorted by time before they are replayed; events of one instant stay in
// the order in which they were read. So a log of a server that logs at the end of a request,
// and is out of order, is replayed as it happened. The report counts the lines that were
// out of order: older than a line before them in the same FILE.
//
// All events are kept in memory. They take 16 bytes each, or 32 with costs, and up to twice
// that while they are read. Each client's name is kept once.
//
// # Limits
//
// Each -limit is replayed alone, on a clock of Unix time. So the windows of a counter and
// the buckets of a limit are aligned to UTC. A limit that is not exact itself is compared
// with the exact log of the same count and window on the same events. Each of the two has
// its own history. An answer is wrongly admitted if the exact log denies that event, and
// wrongly denied if the exact log admits it.
//
// A token bucket is exact itself, like a log, and is compared with nothing: it is meant to
// admit bursts that a log of the same count and window denies. To see by how much they
// differ, give both.
//
// With -together, all of them are the limits of one limiter. An event is admitted if each
// limit admits it, and else charged to none. The report counts the denials that each limit
// decided: the limit with the longest wait, and of equals the one given first. The
// comparison is with a limiter of the exact logs of all, and of the token buckets as they
// are.
//
// # CSV and costs
//
// With -time COLUMN a FILE is CSV, separated by commas, whose first line names the columns.
// A row is one line; a line break within quotes makes its lines unreadable. A time is a date
// and a time of day, in UTC unless it names a zone. The columns of -key identify a client;
// without -key all events are one client's.
//
// With -cost an event costs the sum of the columns named there, instead of one unit. A
// column that is negative, or no whole number, makes the line unreadable. With -estimate a
// call reserves the estimate, as it would before its cost is known. If it is admitted, it is
// settled to its cost: at once, or with -settle that much later by the log's clock, before
// any event of that instant. A summand of digits is a number: -estimate ContextTokens+500
// reserves room for an answer.
//
// The report then also counts units: asked for, admitted and denied, as estimated; charged
// above the estimates and given back, once all is settled; and spent, the costs of all
// admitted events. An event that asks for more than Count, or than the Burst of a token
// bucket, is denied. It is counted apart, since no wait would admit it. The most units that
// one client spent in one window are exact, with all of a cost at the time of its event.
// Their share is that of Count, or of Burst + Count for a token bucket, which is the most
// that it admits in one window. Under an estimate they may exceed the limit.
//
// # Lines
//
// A line that cannot be read is counted, shown by number with the reason, and skipped. So is
// a line of more than 256 KiB. Blank lines are counted apart. A line that ends inside its
// user agent has all that a replay needs: it is an event, and is counted as cut short.
//
// If something else than the client stands at the beginning of lines, such as the virtual
// host in Apache's vhost_combined, all fields would be read one position off. So a line
// cannot be read if its first field is neither an address nor a host name, if its ident is
// an address, or if its user is several fields of which one is "-". Cut the text before the
// client first. A client that is "-" cannot be read where -key names addr.
//
// With -json the report is one object on one line, one for each FILE with -each. Its fields
// are those of the types report, traffic.FaultyLine, verdict, decision, account, peak and
// denials.
//
// The exit status is 0; 1 if a file could not be read, or not to its end, or held nothing
// readable or not the columns that flags name; 2 if the command line was wrong; 130 if
// interrupted, and then no report is written.
package replay

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/progress"
	"github.com/seed-30da4c49/sash/internal/command"
)

// Run runs the subcommand with these arguments and streams, and returns its exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if err != nil {
		return command.Refuse("sash replay", err, o.usage, stdout, stderr)
	}
	reports, err := o.replay(ctx, stdin, progress.On(stderr))
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "sash replay: interrupted, no report")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, "sash replay", err)
		return command.Failed
	}
	if err := write(stdout, reports, o.json); err != nil {
		command.Say(stderr, "sash replay", fmt.Errorf("writing the report: %w", err))
		return command.Failed
	}
	return complain(stderr, reports)
}

// complain writes to stderr which input the reports do not cover, and returns the exit
// status.
func complain(stderr io.Writer, reports []report) int {
	status := command.OK
	for _, r := range reports {
		for _, b := range r.BrokenOff {
			fmt.Fprintf(stderr, "sash replay: %s could be read to line %d only: %s\n", b.File, b.Line, b.Why)
			status = command.Failed
		}
		if r.Events == 0 {
			fmt.Fprintf(stderr, "sash replay: nothing readable in %s: name the format by -format, or the field of the time by -time\n", r.source())
			status = command.Failed
		}
	}
	return status
}
