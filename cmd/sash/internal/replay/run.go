// Package replay is the subcommand that sends recorded traffic through the limiter, on a clock driven by the
// log's own times. It answers the questions of an operator before a limit is switched on:
// how many requests would be denied, whose, and when; and how far a limit's
// answers are from the exact log's.
//
//	sash replay [flags] [FILE...]
//	sash replay -limit "60/60s log" -limit 60/m access.log access.log.1.gz
//	zcat access.log.*.gz | sash replay -limit 10/s -key addr/64,path
//	sash replay -limit 10/s -time .ts -key .client.ip events.jsonl
//	sash replay -together -limit 10/s -limit "240/h buckets 1m" access.log
//	sash replay -limit "10/s burst 100" -limit "10/s log" access.log
//	sash replay -limit 600000/m -time TIMESTAMP -estimate ContextTokens \
//		-cost ContextTokens+GeneratedTokens -settle 5s calls.csv.gz
//
// Several FILEs are one stream, merged by time. With -each, every FILE is a replay of its
// own. Without a FILE, or where one is "-", replay reads standard input. A FILE is plain, or
// compressed by gzip, zstd or bzip2, recognized by its content.
//
// # Formats
//
// The format of each FILE is detected by its first lines, and the report says which one was
// chosen. The option -format names it instead:
//
//	micros           Unix microseconds, a tab, and the client
//	combined         Common or Combined Log Format, as Apache and nginx write them; further
//	                 fields may follow the user agent
//	vhost_combined   the same after a virtual host, as Apache on Debian writes it
//	extended         Common Log Format, and any other fields after the size, such as times
//	vhost_extended   the same after a virtual host
//	elb, alb         AWS Classic and Application Load Balancers
//	s3               the server access logs of Amazon S3
//	squid            the native log of Squid
//	uwsgi            the requests that uWSGI logs by itself
//	haproxy          HAProxy's option httplog or httpslog
//	gcs              the usage logs of Google Cloud Storage, with their heading
//	w3c              the W3C Extended Log of IIS, CloudFront and others
//	zeek             the logs of Zeek with their header
//	json             an object a line: nginx with escape=json, Caddy, Traefik, Envoy, Zeek and others
//	csv, tsv         columns with a header
//	a pattern        a log_format of nginx such as '$remote_addr [$time_local] "$request"', or a
//	                 LogFormat of Apache such as '%h %l %u %t "%r" %>s %b'
//	a configuration  the text of a log_format, LogFormat or CustomLog, as it stands
//
// Names are taken in any case. So are those by which servers and other tools know the formats: main,
// combinedio, vcombined, vcommon, traefikclf, cloudfront, cloudstorage, awselb, awsalb and awss3.
//
// A configuration may be what grep -A5 log_format prints, with line breaks and other directives. If it
// defines several formats, one access_log or CustomLog in it must tell which one is used.
//
// What collectors of logs write before every line, or around it, is stripped, and the report names it:
// syslog (with or without priority, host and process; also of RFC 5424), journalctl -o short, short-iso and
// json, the files of Kubernetes (CRI) and of docker (json-file), docker compose, kubectl logs --prefix, and
// --timestamps. Up to four may stand before a line. If most of the first lines have a prefix, all lines must. The
// parts of a long line are joined; the report counts the lines that a later one continues. A prefix in which an
// address stands for a name is refused, since that may be the client.
//
// Lines that begin with two addresses or more are refused unless -format is given. The first may be a
// virtual host, or a client in X-Forwarded-For. Then -format '%{X-Forwarded-For}i %h %l %u %t "%r" %>s %b'
// reads them, and -trust names the proxy.
//
// With -time FIELD a FILE is columns with a header or JSON lines, whichever its first line is.
// In JSON, .request.ts is the field ts of the object request. The separator of columns is found
// in the header, or given by -separator. A row of columns is one line; a line break within
// quotes makes its lines unreadable.
//
// A time is a date and a time of day, in UTC unless it names a zone, or Unix time. The number of
// digits before the decimals tells the unit of Unix time: fewer than 12 are seconds, fewer than
// 15 milliseconds, fewer than 18 microseconds. The option -unit names the unit instead. It does so
// also for micros, where the digits tell nothing. In a pattern the time is $time_local,
// $time_iso8601 or $msec. Or it is $time, which may have any of these forms. Of Apache it is %t, or
// %{sec}t, %{msec}t, %{usec}t, or formats of strftime in %{…}t, also several of them. The fraction may stand
// apart, as %{msec_frac}t or %{usec_frac}t. Times of the beginning of a request are taken before those with end:.
//
// # Clients
//
// The option -key names the fields that identify a client. The names addr, user, method, path,
// status, size, host, referer, agent and forwarded (X-Forwarded-For) hold in all formats that
// have such a field. Other fields are named as the FILE names them. A path has no query. Without
// -key, clients are told apart by addr/64, and the events of columns are all one client's. With
// -key none all events are one client's.
//
// With addr/64 an IPv6 address counts by its network of 64 bits, and with addr/24/64 an IPv4
// address by one of 24. With addr alone it counts whole, however it is written. With -trust, addr
// is the client behind proxies in that network. Both are decided by httplimit.ByAddress, so clients
// are the same as for the middleware. The middleware's default is addr/64.
//
// # Which events
//
// All events count, unless flags leave some out: -from leaves out what comes before an instant, -to what
// comes at one or later, -without what comes in a span of time, such as an incident, and -where what has
// another value in a field than those that it names:
//
//	sash replay -limit 60/m -from 2026-03-09 -to 2026-03-16 -without 2026-03-10T12:00..2026-03-10T12:10 access.log
//	sash replay -limit 5/m -where method=POST -where path=/login -where 'status!=2xx,3xx' access.log
//
// A time is as in a log, or a day, or has no seconds. Values are as the log has them; 5xx is a class of the
// field status, * at the end of a value stands for the rest, and a host without a port for all its ports. If
// -where is repeated, all of them must hold. A line that is left out is counted as such, and as nothing
// else.
//
// # Order
//
// Events are put in the order of time; events of one instant stay in the order in which they
// were read. So the log of a server that logs at the end of a request, and is out of order, is
// replayed as it happened. The report counts the lines that were out of order: older than a line
// before them in the same FILE. Every line finds its place that comes at most -reorder lines
// late, which several FILEs share. A later one is counted, and replayed at the time of the line
// before.
//
// Memory is needed for the names and the state of clients, and for the lines that wait to be put
// in order: some 30 MB by default. It does not grow with the number of lines.
//
// # Limits
//
// Each -limit is replayed alone, on a clock of Unix time. So the windows of a counter and
// the buckets of a limit are aligned to UTC. Parts begin at instants of each client's own, by a
// hash of its name here. A server has other names, so single answers may differ there. A limit that
// is not exact itself is compared with the exact log of the same count and window on the same
// events. Each of the two has its own history. An answer is wrongly admitted if the exact log
// denies that event, and wrongly denied if the exact log admits it.
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
// # Costs
//
// With -cost an event costs the sum of the fields named there, instead of one unit. A field
// that is negative, or no whole number, makes the line unreadable. With -estimate a
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
// Their share is a share of Count, or of Burst + Count for a token bucket, which is the most
// that it admits in one window. Under an estimate they may exceed the limit.
//
// # Lines
//
// A line that cannot be read is counted, shown by number with the reason, and skipped. So is
// a line of more than 256 KiB. Blank lines are counted apart. A line that ends inside its
// user agent has all that a replay needs: it is an event, and is counted as cut short. So is a line of HAProxy
// of 900 bytes or more that ends anywhere after its time, since HAProxy cuts lines at 1,024 bytes. A field that
// is cut off is unknown: if a flag wants it, the line cannot be read.
//
// A line that another format reads is unreadable, too, and so are two lines of an access log
// or a load balancer in one, as a crash leaves them. A file may begin with lines that lack a
// field which a flag names; if the first 32 do, it is refused. In JSON, a header of the request
// may be missing: it was not sent. The names of other fields are those of the first line that has them. A line
// in which they have other names is unreadable: an address under another name may be a proxy's.
//
// A FILE that is named twice is refused, also if the other name is a link, or standard input. If no format
// reads a line, the reason names the nearest format, and the first place where the line differs from it.
//
// If something else than the client stands at the beginning of lines, all fields would be read
// one position off. So an access log's line cannot be read if its first field is neither an
// address nor a host name, if its ident is an address, or if its user is several fields and
// one of them is "-". A client that is "-", or neither an address nor a host name, cannot be read where
// -key names addr.
//
// The report warns of what makes its answers doubtful: times in whole seconds and windows of
// seconds, a single client, a few addresses with nearly all events that may be proxies, clocks that
// jump, several formats in a FILE, microseconds that are likely to be another unit, lines that came
// too late.
//
// With -json the report is one object on one line, one for each FILE with -each. Its fields
// are the fields of the types report, traffic.FaultyLine, traffic.FileFormat, verdict, decision, account, peak and
// denials.
//
// The exit status is 0; 1 if a file could not be read, or not to its end, or held nothing
// readable or not the fields that flags name; 2 if the command line was wrong; 130 if
// interrupted, and then no report is written.
package replay

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-30da4c49/sash/internal/command"
)

// Run runs the subcommand with these arguments and streams, and returns its exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if err != nil {
		return command.Refuse("sash replay", err, o.usage, stdout, stderr)
	}
	reports, err := o.replay(ctx, stdin, stderr)
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
	status := command.OK
	for i := range reports {
		status = max(status, reports[i].Complain("sash replay", stderr))
	}
	return status
}
