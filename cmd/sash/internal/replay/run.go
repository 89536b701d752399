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
//	sash replay -policy limits.yaml access.log
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
// address stands for a name is refused, since that may be the client. So is a FILE most of whose lines fit -time
// or a pattern of -format with a prefix and without it.
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
// Before a port, as in $remote_addr:$remote_port, an address may be an IPv6 address without brackets.
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
// are the same as for the middleware. The middleware's default is addr/64. A column named addr may have any
// text. A port after an address is dropped, for -where as well. If -key names the column, a line with "-" or nothing
// there is unreadable.
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
// A time is as in a log, or a day, or has no seconds. Values are as the log has them, but for ports in a column
// named addr; 5xx is a class of the field status, * at the end of a value stands for the rest, and a host without
// a port for all its ports. If -where is repeated, all of them must hold. A line that is left out is counted as
// such, and as nothing else.
//
// # Order
//
// Events are put in the order of time; events of one instant stay in the order in which they
// were read. So the log of a server that logs at the end of a request, and is out of order, is
// replayed as it happened. The report counts the lines that were out of order: older than a line
// before them in the same FILE. Every line finds its place that comes at most -reorder lines
// late, which several FILEs share. A later one is counted, and replayed at the time of the line
// before. With -reorder 0, no line is moved within its FILE. A late one is replayed at the time of the line
// before.
//
// Memory is needed for the names and the state of clients, and for the lines that wait to be put
// in order: some 30 MB by default, and some 100 MB more with -policy. It does not grow with the number of
// lines.
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
// # Policies
//
// With -policy, the policies of a file are replayed instead of limits. The file is what policyfile.Load
// reads. Each line becomes a request, with the method, the path, the host, the address and the headers that
// the log has. httplimit decides it, as the middleware does: all policies whose pattern it matches, or none.
// The response settles it, by the status, the size and the headers that the log has. So -policy takes none of
// -limit, -together, -key, -trust, -cost, -estimate and -settle.
//
// The report has a row for each policy:
//
//	requests        of the policy: its pattern matches, and it does not skip them
//	admitted        by all policies, and charged
//	denied          by this policy
//	withheld        admitted by this policy, and denied by another one
//	given back      admitted, and charged nothing once it was answered
//	clients         with different keys
//	clients denied  at least once
//
// The units follow of policies that have a cost, or settle, and the clients that each policy denies most. A
// client is named by its key: an address or a network, a header as X-Api-Key=abc, several keys with spaces
// between them. So the report may have addresses and secrets of people.
//
// What policies need of a log:
//
//   - A pattern needs the method and the path. One with a host needs the host.
//   - A key needs the address, or the header. The headers that access logs have are Referer, User-Agent
//     and X-Forwarded-For. JSON, W3C logs, CSVs and patterns of -format may have any: X-Api-Key is
//     http_x_api_key, request.headers.X-Api-Key, request_X-Api-Key, cs(X-Api-Key) or X-Api-Key.
//   - The key route needs each pattern of the server, by -route. Requests that none serves, or that the
//     mux redirects, are counted apart, as the middleware is then put around the handlers.
//   - charge and charge-uncertain need the status. Codes of gRPC are read from no log, so a policy that
//     names them alone is refused. settle: bytes needs the size, and settle by a header needs that, as in
//     sent_http_x_cost, resp_headers.X-Cost or downstream_X-Cost.
//   - A limit of what is at once needs how long each request has lasted; see below.
//
// A log without one of these is refused. In some cases, the request is clear without the field, and the
// report states what it assumes: without the header of plan or leave, no request has a plan or leaves
// anything; without the header that trusted proxies send, the address is the client's, as it is in the log
// of the proxy itself; and a header that is not the last choice of first-of was not sent.
//
// A file that names functions of a program is refused, as a log does not tell what they return. The error
// lists all of them.
//
// Where a log tells less than a server knows:
//
//   - A request comes, and is answered, at the time of its line, unless a limit of what is at once makes
//     a difference.
//   - A denied request is answered 429, and does not come back. Its status and size in the log are ignored.
//   - Nothing waits in a queue, so a request that would wait is denied. The report says how many of the
//     denied would have waited for it, and how long: if the queue had room, and nothing changed before.
//   - The shadows of the file are replayed as if they were enforced. That tells what enforcing them would
//     do, to the other policies as well. With -shadow they deny nothing, as the file says: that tells what
//     the process would report.
//   - The response is uncertain, as after a client that has hung up, if the status is 499 or 460, or none.
//   - The size is taken for the bytes of the body. In the logs of HAProxy, AWS and IIS, in $bytes_sent and
//     in %O, it is some hundred bytes more, as headers are counted.
//   - Escapes of the server in a path or a header, such as \x22, are taken as they stand.
//   - A line whose method or path net/http would refuse is counted, and no policy sees it.
//
// # What is at once
//
// A policy with a limit such as 5 at once holds its units from the beginning of a request to its end. So all
// requests are then decided at their beginning, and settled at their end. Of two that meet, the one that ends
// comes first. Logs that tell how long a request has lasted, and the instant of their time:
//
//	nginx       $request_time in JSON or in a pattern of -format     the end
//	Apache      %D, %T or %{ms}T in a pattern of -format             the beginning; of %{end:…}t, the end
//	Caddy       duration                                             the end
//	Envoy       duration in whole milliseconds                       the beginning
//	Traefik     Duration, with StartUTC                              the beginning
//	HAProxy     the last of its timers                               the beginning
//	AWS         the three times of elb and alb                       the beginning in elb, the end in alb
//	Amazon S3   the total time                                       the beginning
//	Squid       the elapsed time                                     the end
//	W3C         time-taken: milliseconds of IIS, seconds of CloudFront  the end
//	CSV         a column duration, in seconds                        the beginning
//
// JSON is Envoy's if its first line has a duration without decimals, and downstream_remote_address,
// downstream_local_address, response_flags, upstream_cluster, response_code_details,
// upstream_transport_failure_reason or x-envoy-origin-path. Other JSON has duration in seconds. A time from
// start_time is the beginning. Another time of Envoy is taken for the beginning, too. If another time than
// start_time is read from a first line that has both, it is the end.
//
// A request that lasts long is logged long after its beginning, and finds its place if it comes at most
// -reorder lines late.
//
// # Costs
//
// With -cost an event costs the sum of the fields named there, instead of one unit. Fields are in the
// units of the log: duration costs milliseconds if the log has milliseconds. A field
// that is negative, or no whole number, makes the line unreadable. A size of "-" costs 0 in access logs,
// patterns and logs of Amazon S3; in JSON and CSV it is unreadable. With -estimate a
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
// may be missing: it was not sent. The first line that has the other fields tells their names.
// A later line is unreadable if a field has another name there: an address under another name may be a proxy's.
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
// are the fields of the types report, traffic.FaultyLine, traffic.FileFormat, verdict, decision, account,
// peak and denials; and of enforcementReport, policyReport, waitReport and unitReport.
//
// The exit status is 0; 1 if a file could not be read, or not to its end, or held nothing
// readable or not the fields that flags and policies name, or if the policies have faults; 2 if the
// command line was wrong; 130 if interrupted, and then no report is written.
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
