package traffic

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
)

// A Field is a field that an event carries, for Event.Values.
type Field struct {
	Name string // a common name such as method, the name that the file has for it, or one of Header and AnswerHeader
	// For is what wants the field, as an error says it: "policy limits.yaml". A file without the field is
	// refused. If For is empty, the file may be without it.
	For string
}

// A carried is what an event carries of its line. Most replays need none of it, so that it takes an event of
// these no more than a pointer.
type carried struct {
	lasts  int64  // nanoseconds
	values string // of Settings.Fields, each after its length
}

// Lasts returns the nanoseconds from the beginning of e, which is e.At, to its end. It returns 0 unless
// Settings.Lasting is set.
func (e *Event) Lasts() int64 {
	if e.carried == nil {
		return 0
	}
	return e.carried.lasts
}

// Prefixes of the names of fields that are headers.
const (
	ofRequest = "header "
	ofAnswer  = "answer's header "
)

// Header returns the name of the field that has a header of the request. Several lines of that header are
// joined by line feeds where the log tells them apart, and by commas where it does not.
func Header(name string) string { return ofRequest + http.CanonicalHeaderKey(name) }

// AnswerHeader returns the name of the field that has a header of the response.
func AnswerHeader(name string) string { return ofAnswer + http.CanonicalHeaderKey(name) }

// Header returns the header of the request that f is, if it is one.
func (f *Field) Header() (name string, ok bool) { return strings.CutPrefix(f.Name, ofRequest) }

// AnswerHeader returns the header of the response that f is, if it is one.
func (f *Field) AnswerHeader() (name string, ok bool) { return strings.CutPrefix(f.Name, ofAnswer) }

// check refuses a status or a size that is no number.
func (f *Field) check(value string) error {
	number := f.Name == Status || f.Name == Size
	if number && value != "" && value != "-" && value != "-1" && strings.Trim(value, "0123456789") != "" {
		return fmt.Errorf("%s %s is no number", f.Name, Clip(value))
	}
	return nil
}

// Names of fields that most logs have.
const (
	Method = "method"
	Path   = "path" // without the query
	Host   = "host"
	Status = "status"
	Size   = "size" // of the response, in bytes
)

// CountsHeaders reports whether the sizes that a log of that format has are of the headers as well.
func CountsHeaders(format string) bool {
	switch format {
	case "haproxy", "elb", "alb", "squid", "w3c":
		return true
	}
	if strings.Contains(format, "$") {
		return strings.Contains(format, "$bytes_sent") && !strings.Contains(format, "$body_bytes_sent")
	}
	return strings.Contains(format, "%O") && !strings.Contains(format, "%b") && !strings.Contains(format, "%B")
}

// headersOfLogs are the common names of the headers that most logs have.
var headersOfLogs = map[string]string{
	"X-Forwarded-For": forwarded, "Referer": "referer", "User-Agent": "agent",
}

// commonName returns the name under which an access log or a CSV has the field of that name.
func commonName(field string) string {
	if field == lasting {
		return duration
	}
	header, found := strings.CutPrefix(field, ofRequest)
	if !found {
		return strings.TrimPrefix(field, ofAnswer)
	}
	if common, found := headersOfLogs[header]; found {
		return common
	}
	return header
}

// isOwnHeader reports whether a field is a header by Header or AnswerHeader. In JSON, lines without it are
// requests that do not have it, and a later line may be the first with it.
func isOwnHeader(field string) bool {
	return strings.HasPrefix(field, ofRequest) || strings.HasPrefix(field, ofAnswer)
}

// headerAliases returns the fields in which servers log a header.
func headerAliases(field string) (all []alias) {
	header, request := strings.CutPrefix(field, ofRequest)
	header = strings.TrimPrefix(header, ofAnswer)
	variable := strings.ReplaceAll(strings.ToLower(header), "-", "_")
	if !request {
		return []alias{{"sent_http_" + variable, nil}, {"resp_headers." + header, nil}, {"downstream_" + header, nil}}
	}
	if common, found := headersOfLogs[header]; found {
		all = namesOf(common)
	}
	for _, name := range []string{"http_" + variable, caddyHeaders + header, "request_" + header, "cs(" + header + ")", header, strings.ToLower(header), variable} {
		all = append(all, alias{field: name})
	}
	return all
}

// appendFields appends the values of fields, each after its length.
func appendFields(to []byte, values []string, indices []int) []byte {
	for _, i := range indices {
		to = binary.AppendUvarint(to, uint64(len(values[i])))
		to = append(to, values[i]...)
	}
	return to
}

// Values appends the values of Settings.Fields to all, in their order. A value is "-" if the line does not
// tell it, and empty if the file has no such field.
func (e *Event) Values(all []string) []string {
	if e.carried == nil {
		return all
	}
	for rest := e.carried.values; rest != ""; {
		length, n := binary.Uvarint([]byte(rest[:min(len(rest), binary.MaxVarintLen64)]))
		end := n + int(length)
		all, rest = append(all, rest[n:end]), rest[end:]
	}
	return all
}
