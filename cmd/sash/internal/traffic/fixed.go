package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A fixedFormat is a format with a name whose fields stand in a fixed order.
type fixedFormat struct {
	name, title string
	text        string // its pattern
	required    string // the last variable that every line has
	runs        bool   // whether several spaces are as one
	// longest is the length from which on a line may be cut: it then ends anywhere after the time. If it is 0,
	// no line is cut.
	longest int
	// joined reports whether what follows the known fields has a field of one more line. Other fields may
	// follow them, so another line might, too.
	joined func(rest string) bool

	once     sync.Once
	compiled *template
}

// fixedFormats are all formats of that kind, by their names.
var fixedFormats = map[string]*fixedFormat{
	"elb": {
		name: "elb", title: "an AWS Classic Load Balancer log", required: "request",
		text:   `$time $elb $addr_port $backend $request_processing_time $backend_time $response_time $status $backend_status $received $bytes_sent "$request" "$http_user_agent" $rest`,
		joined: func(rest string) bool { return timesIn(rest) > 0 },
	},
	"alb": {
		name: "alb", title: "an AWS Application Load Balancer log", required: "request",
		text:   `$type $time $elb $addr_port $target $request_processing_time $target_time $response_time $status $target_status $received $bytes_sent "$request" "$http_user_agent" $rest`,
		joined: func(rest string) bool { return timesIn(rest) > 1 }, // it has the time of the request, too
	},
	"s3": {
		name: "s3", title: "an Amazon S3 server access log", required: "http_user_agent",
		text: `$bucket_owner $bucket [$time_local] $remote_ip $remote_user $request_id $operation $key "$request" $status $error_code ` +
			`$bytes_sent $object_size $total_time $turn_around_time "$http_referer" "$http_user_agent" $rest`,
		joined: func(rest string) bool { return hasBracketed(rest, zonedTime) },
	},
	"squid": {
		name: "squid", title: "a native log of Squid", required: "content_type", runs: true,
		text:   `$time $elapsed $remote_ip $result/$status $bytes_sent $request_method $request_uri $remote_user $hierarchy/$peer $content_type $rest`,
		joined: func(rest string) bool { return slices.ContainsFunc(strings.Fields(rest), isResultOfSquid) },
	},
	"uwsgi": {
		name: "uwsgi", title: "a request log of uWSGI", required: "rest",
		text: `[pid: $pid|app: $app|req: $req] $remote_ip ($remote_user) {$variables vars in $received bytes} [$time] $request_method $request_uri ` +
			`=> generated $bytes_sent bytes in $took $unit ($protocol $status) $rest`,
		joined: func(rest string) bool { return strings.Contains(rest, "[pid: ") },
	},
	// HAProxy cuts lines at 1,024 bytes, with what it writes for syslog before them.
	"haproxy": {
		name: "haproxy", title: "an HAProxy HTTP log", required: "request", longest: 900,
		text:   `$addr_port [$time] $frontend $backend $timers $status $bytes_sent $request_cookie $response_cookie $termination $connections $queues $captures"$request" $rest`,
		joined: func(rest string) bool { return hasBracketed(rest, haproxyTime) },
	},
}

// haproxyTime is the layout of HAProxy's times.
const haproxyTime = "02/Jan/2006:15:04:05.000"

// A fixed reads lines of a fixedFormat.
type fixed struct {
	pattern
	*fixedFormat
}

// newFixed returns what makes the decoder of the format of that name.
func newFixed(name string) func(*wanted) decoder {
	return func(w *wanted) decoder {
		f := fixedFormats[name]
		return &fixed{*newPattern(f.name, f.title, f.template(), w), f}
	}
}

// template returns the compiled pattern.
func (f *fixedFormat) template() *template {
	f.once.Do(func() {
		t, err := compile(f.text)
		if err != nil {
			panic(err) // the table is wrong
		}
		t.runs = f.runs
		for i, e := range t.extents {
			if e == toLiteral && strings.HasPrefix(t.literals[i+1], " ") {
				t.extents[i] = toSpace // no field has one
			}
		}
		t.required = slices.Index(t.variables, f.required) + 1
		f.compiled = t
	})
	return f.compiled
}

func (f *fixed) name() string { return f.fixedFormat.name }

// datesEnds is true of an Application Load Balancer and of Squid. A Classic Load Balancer, HAProxy and others
// log the beginning.
func (f *fixed) datesEnds() bool { return f.name() == "alb" || f.name() == "squid" }

func (f *fixed) decode(line string, r *record) error {
	r.title = f.pattern.title
	n, err := f.match(line, f.found)
	if err != nil && f.longest > 0 && len(line) >= f.longest {
		return f.takeCut(n, line, r)
	}
	if err != nil {
		return err
	}
	if rest := f.variables[len(f.variables)-1]; n == len(f.found) && rest == "rest" && f.joined(f.found[n-1]) {
		return errors.New("two lines in one: what follows has fields of one more")
	}
	if err := f.take(n, r); err != nil {
		return err
	}
	for i, field := range f.fields {
		if field.name == lasting && slices.Contains(f.variables, "request_processing_time") {
			r.values[i] = f.lasts()
		}
	}
	return nil
}

// lasts returns how long a request to a load balancer of AWS has lasted, in nanoseconds: the sum of three
// times. A time is -1 if it was not measured.
func (f *fixed) lasts() string {
	sum := int64(0)
	for _, part := range f.found[slices.Index(f.variables, "request_processing_time"):][:3] {
		n, err := lastsOf(inSeconds(part))
		if err != nil {
			return part
		}
		sum += n
	}
	return strconv.FormatInt(sum, 10)
}

// takeCut makes a record of a line that is cut inside variable n. What is left of that variable, and the
// variables after it, are unknown. Without a time it is no record.
func (f *fixed) takeCut(n int, line string, r *record) error {
	rest := line
	for _, v := range f.found[:n] { // find where the line is cut: what is left may be another line
		rest = rest[strings.Index(rest, v)+len(v):]
	}
	if f.joined(rest) {
		return errors.New("two lines in one: what follows has fields of one more")
	}
	for i, s := range f.sources {
		if s.index >= n && f.fields[i].flag != "" {
			return fmt.Errorf("it is cut short before its %s, which -%s wants", f.fields[i], f.fields[i].flag)
		}
	}
	r.cut = true
	return f.take(n, r)
}

// timesIn returns the number of times in the last fields of a line of a load balancer. Those within quotes
// are what a client sent, unless a quote is not closed.
func timesIn(fields string) (n int) {
	const layout = "2006-01-02T15:04:05.000000Z"
	closed := strings.Count(fields, `"`)%2 == 0
	quoted := false
	for part := range strings.SplitSeq(fields, `"`) {
		for word := range strings.FieldsSeq(part) {
			if begin := len(word) - len(layout); begin >= 0 && word[len(word)-1] == 'Z' && !(quoted && closed) {
				if _, err := time.Parse(layout, word[begin:]); err == nil {
					n++
				}
			}
		}
		quoted = !quoted
	}
	return n
}

// hasBracketed reports whether text has a time of that layout in brackets, with a space on either side.
func hasBracketed(text, layout string) bool {
	for rest := text; ; {
		_, after, found := strings.Cut(rest, " [")
		if !found {
			return false
		}
		if len(after) > len(layout)+1 && after[len(layout):len(layout)+2] == "] " {
			if _, err := time.Parse(layout, after[:len(layout)]); err == nil {
				return true
			}
		}
		rest = after
	}
}

// isResultOfSquid reports whether a field is the result of a request and its status, such as TCP_MISS/200.
func isResultOfSquid(field string) bool {
	result, status, found := strings.Cut(field, "/")
	return found && len(status) == 3 && isDigits(status) && isUpper(result)
}

// isUpper reports whether s is a word in capitals.
func isUpper(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}
