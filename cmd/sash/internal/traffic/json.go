package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// jsonTimes are the fields in which servers log the time. The first one that a file has is taken.
var jsonTimes = []string{"StartUTC", "time_iso8601", "time_local", "msec", "@timestamp", "timestamp", "ts", "time", "datetime",
	"EdgeStartTimestamp", startTime, "requestTimeEpoch", "requestTime"}

var timesOfJSON = func() (all []alias) {
	for _, name := range jsonTimes {
		all = append(all, alias{field: name})
	}
	return all
}()

// A jsonLines reads an object a line, such as nginx with a log_format of JSON, Caddy and Traefik
// write.
type jsonLines struct {
	*wanted
	clock timeReader
	paths []jsonPath // of the time, and of the fields wanted; nil before the first line
	begun bool       // whether the time is the beginning of a request
}

// A jsonPath is where a field is, in the syntax of gjson.
type jsonPath struct {
	path string
	alias
	header bool   // whether a line may be without it, or have several values
	lines  bool   // whether several values are joined by line feeds
	unit   string // of a duration, for the report
}

func newJSON(w *wanted) decoder { return &jsonLines{wanted: w, clock: timeReader{unit: w.unit}} }

func (j *jsonLines) name() string { return "json" }

func (j *jsonLines) has(i int) bool { return j.paths[i+1].path != "" }

// datesEnds reports whether the time is the end of a request, as of nginx and Caddy.
func (j *jsonLines) datesEnds() bool { return !j.begun }

func (j *jsonLines) decode(line string, r *record) error {
	r.title = "JSON"
	if !strings.HasPrefix(strings.TrimLeft(line, " \t"), "{") {
		return errors.New("no JSON object")
	}
	if !gjson.Valid(line) {
		return errors.New(`not valid JSON (nginx writes valid JSON with escape=json in its log_format)`)
	}
	if j.paths == nil {
		// All lines are taken to have the fields of the first one that has a time.
		if err := j.resolve(line); err != nil {
			return err
		}
	}
	when, err := j.value(line, 0)
	if err != nil {
		return err
	}
	if r.at, err = j.clock.read(when); err != nil {
		return err
	}
	for i := range j.paths[1:] {
		if j.paths[i+1].path == "" && isOwnHeader(j.wanted.fields[i].name) { // no line so far had it
			j.findHeader(line, i)
		}
		if r.values[i], err = j.value(line, i+1); err != nil {
			return err
		}
	}
	return j.checkClient(r.values)
}

// value returns the text of a field by its index among the paths. A line that has it by another name only is
// not read: that may be the address of a proxy, or of a line that is no request.
func (j *jsonLines) value(line string, i int) (string, error) {
	v, err := value(line, j.paths[i])
	if err == nil {
		return v, nil
	}
	names := timesOfJSON
	if i > 0 {
		names = namesOf(j.fields[i-1].name)
	}
	if other, found := find(line, names); found && other.field != j.paths[i].field {
		err = fmt.Errorf("%w, as the lines before it: it has %s, so split the file where the names change", err, other.field)
	}
	return "", err
}

// resolve finds the fields in the first line.
func (j *jsonLines) resolve(line string) error {
	times := timesOfJSON
	if j.time != "" {
		times = []alias{{field: j.time}}
	}
	var paths []jsonPath
	if p, found := find(line, times); found && (j.time != "" || !isDuration(line, p)) {
		paths = append(paths, p)
	}
	if len(paths) == 0 && j.time != "" {
		return &lackError{wantedField{j.time, "time"}, "JSON", fieldsOf(line)}
	}
	if len(paths) == 0 {
		return fmt.Errorf("JSON without a time known by its name: name it by -time, the fields are %s", Clip(strings.Join(fieldsOf(line), " ")))
	}
	envoy := isOfEnvoy(line)
	for _, f := range j.wanted.fields {
		p, found := find(line, namesOf(f.name))
		if !found && f.flag != "" && !isOwnHeader(f.name) {
			return &lackError{f, "JSON", fieldsOf(line)}
		}
		if f.name == lasting && p.field == duration {
			p.unit = " in seconds"
			if envoy {
				p.part, p.unit = inWholeMilliseconds, " in milliseconds, as Envoy's"
			}
		}
		p.lines = isOwnHeader(f.name)
		p.header = isHeader(f.name) || p.lines || !found
		paths = append(paths, p)
	}
	j.paths, j.begun = paths, datesBeginning(paths[0].field, line, envoy)
	return nil
}

// datesBeginning reports whether the time in that field of a line is the beginning of its request. Traefik's
// fields are StartUTC and StartLocal. A time of Envoy is taken for the beginning under any other name as well. If the
// line also has start_time, the other is taken for the end: it is a collector's, or %EMIT_TIME%.
func datesBeginning(field, line string, envoy bool) bool {
	name := strings.TrimPrefix(field, ".")
	return name == startTime || strings.HasPrefix(name, "Start") || envoy && !gjson.Get(line, startTime).Exists()
}

// findHeader finds the header that is the i-th of the fields wanted in a line.
func (j *jsonLines) findHeader(line string, i int) {
	p, _ := find(line, namesOf(j.wanted.fields[i].name))
	p.header, p.lines = true, true
	j.paths[i+1] = p
}

// isDuration reports whether a field is how long a request took: API Gateway logs a date by the name by which
// other servers log seconds.
func isDuration(line string, p jsonPath) bool {
	return p.field == "requestTime" && gjson.Get(line, p.path).Type == gjson.Number
}

// startTime is the field in which Envoy logs the beginning of a request.
const startTime = "start_time"

// fieldsOfEnvoy are fields by which Envoy is told from other servers.
var fieldsOfEnvoy = []string{"downstream_remote_address", "downstream_local_address", "response_flags", "upstream_cluster",
	"response_code_details", "upstream_transport_failure_reason", "x-envoy-origin-path"}

// isOfEnvoy reports whether a line is Envoy's. Its duration is in whole milliseconds; other servers log seconds by
// that name, and decimals of them.
func isOfEnvoy(line string) bool {
	lasts := gjson.Get(line, duration)
	return lasts.Exists() && !strings.Contains(lasts.Raw, ".") &&
		slices.ContainsFunc(fieldsOfEnvoy, func(name string) bool { return gjson.Get(line, name).Exists() })
}

// find returns the path of the first of the fields that the line has. A name with a leading dot
// is a path. Another one is a name first, as in "id.orig_h", and then a path. A line of Caddy has
// all headers, and one that is not there was not sent.
func find(line string, names []alias) (jsonPath, bool) {
	for _, a := range names {
		name, path := strings.CutPrefix(a.field, ".")
		parts := strings.Split(name, ".")
		for i := range parts {
			parts[i] = gjson.Escape(parts[i])
		}
		for _, p := range []string{gjson.Escape(name), strings.Join(parts, ".")} {
			// A name with dots that has a leading dot is only a path.
			if (!path || p != gjson.Escape(name) || len(parts) == 1) && gjson.Get(line, p).Exists() {
				return jsonPath{path: p, alias: a}, true
			}
		}
		if strings.HasPrefix(a.field, caddyHeaders) && gjson.Get(line, strings.TrimSuffix(caddyHeaders, ".")).IsObject() {
			return jsonPath{path: a.field, alias: a}, true
		}
	}
	return jsonPath{}, false
}

// caddyHeaders begins the path of a header in a line of Caddy.
const caddyHeaders = "request.headers."

// value returns the text of a field.
func value(line string, p jsonPath) (string, error) {
	v := gjson.Get(line, p.path)
	if p.header && v.IsArray() {
		var all []string
		for _, one := range v.Array() {
			all = append(all, one.String())
		}
		if p.lines {
			return p.apply(strings.Join(all, "\n")), nil
		}
		return p.apply(strings.Join(all, ", ")), nil
	}
	switch v.Type {
	case gjson.String:
		return p.apply(v.Str), nil
	case gjson.Number:
		return p.apply(v.Raw), nil
	case gjson.True, gjson.False:
		return v.Raw, nil
	case gjson.Null: // also if there is no such field
		if v.Exists() || p.header {
			return "-", nil
		}
		return "", fmt.Errorf("no %s", p.field)
	}
	return "", fmt.Errorf("%s is no text or number", p.field)
}

// fieldsOf returns the names of the fields of a line, and of the objects in it.
func fieldsOf(line string) (names []string) {
	var walk func(prefix string, v gjson.Result)
	walk = func(prefix string, v gjson.Result) {
		v.ForEach(func(key, v gjson.Result) bool {
			if v.IsObject() {
				walk(prefix+key.Str+".", v)
			} else {
				names = append(names, prefix+key.Str)
			}
			return true
		})
	}
	walk("", gjson.Parse(line))
	slices.Sort(names)
	return names
}

// about says which fields were chosen.
func (j *jsonLines) about() string {
	if j.paths == nil {
		return ""
	}
	text := ", time from " + j.paths[0].field
	for i, f := range j.wanted.fields {
		if got := j.paths[i+1].field; f.flag != "" && got != f.name {
			text += fmt.Sprintf(", %s from %s%s", f, got, j.paths[i+1].unit)
		}
	}
	return text
}
