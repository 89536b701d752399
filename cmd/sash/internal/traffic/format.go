package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A decoder reads the lines of one file, in one format.
type decoder interface {
	// name returns what -format takes.
	name() string
	// decode reads a line. Its error says what is wrong with the line, unless it is a
	// *lackError.
	decode(line string, r *record) error
	// has reports whether the lines of the file have the i-th of the fields wanted.
	has(i int) bool
	// datesEnds reports whether the time of a line is the end of its request, and not the beginning.
	datesEnds() bool
}

// A record is a line that could be read.
type record struct {
	at      int64    // Unix nanoseconds
	values  []string // by the index of the field wanted; "" and "-" are unknown
	title   string   // what the line is
	heading bool     // whether it names fields, and is no event
	cut     bool     // whether it ends inside its last field
}

// wanted is the fields that a decoder shall find.
type wanted struct {
	fields    []wantedField
	time      string // the field of the time, or "" for the time field of the format
	unit      string
	separator string
	file      string // its name, for errors
}

type wantedField struct{ name, flag string } // the flag is "" if the field may be missing

// String returns the name for messages.
func (f wantedField) String() string { return strings.TrimPrefix(f.name, "\x00") }

// add adds a field, and returns its index.
func (w *wanted) add(name, flag string) int {
	w.fields = append(w.fields, wantedField{name, flag})
	return len(w.fields) - 1
}

// addIfThere adds a field that a file may be without, and returns its index. Its value is then "-".
func (w *wanted) addIfThere(name string) int { return w.add(name, "") }

// A lackError says that a line has no field of that name. If that is true of the first lines of
// a file, the flag is wrong, and else the line.
type lackError struct {
	wantedField
	title string   // what the line is
	has   []string // the fields that it has, if the file names them
}

func (e *lackError) Error() string {
	return fmt.Sprintf("no %s, which -%s wants: the line is %s", e.wantedField, e.flag, e.title)
}

// of returns the error about a file whose first lines have no such field.
func (e *lackError) of(flags, file string, line int64) error {
	text := fmt.Sprintf("-%s: %s has no %s, line %d is %s", flags, file, e.wantedField, line, e.title)
	if len(e.has) > 0 {
		text += " with the fields " + Clip(strings.Join(e.has, " "))
	}
	return errors.New(text)
}

// A fileFormat is a format that -format names.
type fileFormat struct {
	names   []string
	decoder func(w *wanted) decoder
	guess   int  // what a line that it reads counts when the format is detected; 0 if it is never tried
	vhost   bool // whether a virtual host stands before the address
}

// formats are all formats. Of those that read equally many lines of a file, the first is taken.
// A line counts half for those that also read what the others read.
var formats = []fileFormat{
	{[]string{"micros"}, newMicros, 2, false},
	{[]string{"combined", "common"}, func(w *wanted) decoder { return newAccessLog(w, false, false) }, 2, false},
	{[]string{"vhost_combined", "vhost_common"}, func(w *wanted) decoder { return newAccessLog(w, true, false) }, 2, true},
	{[]string{"extended"}, func(w *wanted) decoder { return newAccessLog(w, false, true) }, 1, false},
	{[]string{"vhost_extended"}, func(w *wanted) decoder { return newAccessLog(w, true, true) }, 1, true},
	{[]string{"elb"}, newFixed("elb"), 2, false},
	{[]string{"alb"}, newFixed("alb"), 2, false},
	{[]string{"s3"}, newFixed("s3"), 2, false},
	{[]string{"squid"}, newFixed("squid"), 2, false},
	{[]string{"uwsgi"}, newFixed("uwsgi"), 2, false},
	{[]string{"haproxy"}, newFixed("haproxy"), 2, false},
	{[]string{"gcs"}, newCloudStorage, 2, false},
	{[]string{"w3c", "iis"}, func(w *wanted) decoder { return newHashed("w3c", "a W3C Extended Log", w) }, 2, false},
	{[]string{"zeek"}, func(w *wanted) decoder { return newHashed("zeek", "a Zeek log", w) }, 2, false},
	{[]string{"json", "caddy", "traefik"}, newJSON, 2, false},
	{[]string{"csv"}, func(w *wanted) decoder { return newColumns("csv", w) }, 0, false},
	{[]string{"tsv"}, func(w *wanted) decoder { return newColumns("tsv", w) }, 0, false},
}

// FormatNames returns the names that -format takes.
func FormatNames() (names []string) {
	for _, f := range formats {
		names = append(names, f.names...)
	}
	return names
}

// nicknames are names by which servers and the tools that read their logs know formats.
var nicknames = map[string]string{
	"main": "combined", "combinedio": "combined", "traefikclf": "combined", // more fields may follow
	"vcombined": "vhost_combined", "vcommon": "vhost_common", "cloudfront": "w3c", "awsalb": "alb", "awselb": "elb", "awss3": "s3",
	"cloudstorage": "gcs",
}

// canonical returns the name of a format, in whatever case and by whatever nickname it is given.
func canonical(format string) string {
	name := strings.ToLower(format)
	if known, found := nicknames[name]; found {
		return known
	}
	return name
}

// decoderFor returns the maker of a decoder for the value of -format.
func decoderFor(format string) (func(w *wanted) decoder, error) {
	for _, f := range formats {
		if slices.Contains(f.names, canonical(format)) {
			return f.decoder, nil
		}
	}
	if strings.TrimSpace(format) == "" {
		return nil, errors.New("-format is empty: if the configuration of a server defines no format, leave -format out, and the format is detected")
	}
	if !strings.ContainsAny(format, "$%") {
		return nil, fmt.Errorf("-format: no format %s, want one of %s, or a pattern such as '$remote_addr [$time_local] \"$request\" $status'",
			Clip(format), strings.Join(FormatNames(), " "))
	}
	t, err := compile(format)
	if err != nil {
		return nil, fmt.Errorf("-format: %w", err)
	}
	return func(w *wanted) decoder { return newPattern(format, "the pattern of -format", t, w) }, nil
}

// An alias is a field of a format that holds what a common name stands for.
type alias struct {
	field string
	part  func(string) string // what of its value; nil for all
}

// aliases are the names by which servers log the fields that most logs have. The first one that
// a file has is taken.
var aliases = map[string][]alias{
	Addr: {{"remote_addr", hostOfAny}, {"addr_port", hostOf}, {"request.client_ip", nil}, {"request.remote_ip", nil},
		{"request.remote_addr", hostOfAny}, {"ClientHost", nil}, {"c-ip", nil}, {"id.orig_h", nil}, {"client_ip", hostOfAny},
		{"clientip", hostOfAny}, {"remote_ip", hostOfAny}, {"client.ip", hostOfAny}, {"client_addr", hostOfAny}, {"client", hostOfAny}, {"ip", hostOfAny},
		{"c_ip", nil}, {"ClientIP", nil}, {"downstream_remote_address", hostOfAny}, {"httpRequest.remoteIp", nil}, {"httpRequest.clientIp", nil},
		{"sourceIp", nil}},
	"ident": {{"remote_logname", nil}},
	"user":  {{"remote_user", nil}, {"user_id", nil}, {"ClientUsername", nil}, {"cs-username", nil}},
	"method": {{"request_method", nil}, {"request.method", nil}, {"RequestMethod", nil}, {"cs-method", nil},
		{"request", methodOf}, {"cs_method", nil}, {"ClientRequestMethod", nil}, {"httpRequest.requestMethod", nil}, {"httpRequest.httpMethod", nil},
		{"httpMethod", nil}},
	"path": {{"request.uri", withoutQuery}, {"RequestPath", withoutQuery}, {"cs-uri-stem", nil}, {"request_uri", withoutQuery},
		{"uri", withoutQuery}, {"request", pathOf}, {"cs_uri", withoutQuery}, {"ClientRequestURI", withoutQuery}, {"x-envoy-origin-path", withoutQuery},
		{"httpRequest.requestUrl", withoutQuery}, {"httpRequest.uri", withoutQuery}},
	"status": {{"DownstreamStatus", nil}, {"sc-status", nil}, {"status_code", nil}, {"sc_status", nil}, {"EdgeResponseStatus", nil},
		{"response_code", nil}, {"httpRequest.status", nil}},
	"size": {{"body_bytes_sent", nil}, {"bytes_sent", nil}, {"DownstreamContentSize", nil}, {"sc-bytes", nil}, {"sc_bytes", nil},
		{"EdgeResponseBytes", nil}, {"httpRequest.responseSize", nil}, {"responseLength", nil}},
	"referer": {{"http_referer", nil}, {"request.headers.Referer", nil}, {"request_Referer", nil}, {"cs(Referer)", nil}, {"cs_referer", nil},
		{"ClientRequestReferer", nil}, {"httpRequest.referer", nil}},
	"agent": {{"http_user_agent", nil}, {"request.headers.User-Agent", nil}, {"request_User-Agent", nil},
		{"cs(User-Agent)", nil}, {"user_agent", nil}, {"cs_user_agent", nil}, {"ClientRequestUserAgent", nil}, {"user-agent", nil},
		{"httpRequest.userAgent", nil}},
	"host": {{"http_host", nil}, {"request.host", nil}, {"RequestHost", nil}, {"cs-host", nil}, {"server_name", nil}, {"cs_host", nil},
		{"ClientRequestHost", nil}, {":authority", nil}},
	forwarded: {{"http_x_forwarded_for", nil}, {"request.headers.X-Forwarded-For", nil}, {"request_X-Forwarded-For", nil},
		{"cs(X-Forwarded-For)", spaced}, {"X-Forwarded-For", spaced}, {"x-forwarded-for", spaced}, {"x_forwarded_for", nil}, {"proxy_add_x_forwarded_for", nil}},
}

// isHeader reports whether a field of that name is a header of the request. A request without it
// is logged without the field, by servers that log headers as they come.
func isHeader(name string) bool { return name == forwarded || name == "referer" || name == "agent" }

// namesOf returns the fields that may hold what name stands for: the fields of that name, and its
// aliases.
func namesOf(name string) []alias {
	switch {
	case name == lasting:
		return durations
	case isOwnHeader(name):
		return headerAliases(name)
	}
	own := alias{field: name}
	if name == "path" {
		own.part = withoutQuery
	}
	return append([]alias{own}, aliases[name]...)
}

// apply returns the part of a value that the alias stands for.
func (a alias) apply(v string) string {
	if a.part == nil || v == "-" {
		return v
	}
	return a.part(v)
}

// statusOf returns a status, or 0 if v is none.
func statusOf(v string) uint16 {
	if len(v) != 3 {
		return 0
	}
	status := uint16(0)
	for _, c := range []byte(v) {
		if c < '0' || c > '9' {
			return 0
		}
		status = 10*status + uint16(c-'0')
	}
	return status
}

// hostOf returns the address of an address and a port.
func hostOf(v string) string {
	if i := strings.LastIndexByte(v, ':'); i >= 0 {
		v = v[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(v, "["), "]")
}

// hostOfAny returns the address of an address with or without a port, and other text as it is.
func hostOfAny(v string) string {
	if host := strings.TrimSuffix(strings.TrimPrefix(v, "["), "]"); isAddress(host) {
		return host
	}
	if host := hostOf(v); isAddress(host) {
		return host
	}
	return v
}

// spaced returns a list of addresses with its spaces, which IIS and CloudFront encode.
func spaced(list string) string { return strings.NewReplacer("+", " ", "%20", " ").Replace(list) }

func methodOf(request string) string {
	method, _ := splitRequest(request)
	return method
}

func pathOf(request string) string {
	_, path := splitRequest(request)
	return path
}

// withoutQuery returns the path of a target, which may be a whole URL.
func withoutQuery(target string) string {
	if _, rest, found := strings.Cut(target, "://"); found && !strings.HasPrefix(target, "/") {
		i := strings.IndexAny(rest, "/?")
		if i < 0 {
			return "/"
		}
		target = rest[i:]
	}
	path, _, _ := strings.Cut(target, "?")
	return path
}

// checkAddr refuses an address with control characters, which no server writes: with the zeros
// that a crash leaves in a file, the client would become another one.
func checkAddr(addr string) error {
	if strings.ContainsFunc(addr, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return fmt.Errorf("address %s has control characters", Clip(addr))
	}
	return nil
}

// checkClient refuses values in which addr is wanted and unknown, or cannot be a client: the line
// is damaged, or its fields are others.
func (w *wanted) checkClient(values []string) error {
	for i, f := range w.fields {
		if f.name != Addr {
			continue
		}
		if err := checkAddr(values[i]); err != nil {
			return err
		}
		if v := values[i]; v != "" && v != "-" && !isClient(v) {
			return fmt.Errorf("addr %s is neither an address nor a host name", Clip(v))
		}
	}
	return w.checkKnown(values)
}

// checkKnown refuses values in which addr is wanted and unknown.
func (w *wanted) checkKnown(values []string) error {
	for i, f := range w.fields {
		if err := f.checkValue(values[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkValue refuses an address that is unknown.
func (f wantedField) checkValue(v string) error {
	if f.name == Addr && (v == "" || v == "-") {
		return fmt.Errorf("no addr, which -%s wants: it is %q", f.flag, v)
	}
	return nil
}

// isClient reports whether a server may log v for the address of a client: an address, a name
// that was looked up for it, or what nginx writes for a Unix socket.
func isClient(v string) bool { return isAddress(v) || isHostName(v) || strings.HasPrefix(v, "unix:") }
