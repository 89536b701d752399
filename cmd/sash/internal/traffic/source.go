package traffic

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/internal/window"
)

// A source reads one file. Only its goroutine uses it until the channel that start returns is
// closed.
type source struct {
	settings *Settings
	file     string
	files    int // the number of files
	wanted   *wanted
	key      Key
	clients  []clientName // by field of the key; none if all events are one client's
	list     int          // the index of X-Forwarded-For among the values, or -1
	cost     []int        // the indices of the fields of Cost
	estimate []int        // the indices of the fields of Estimate
	where    []int        // the indices of the fields of Where
	status   int          // the index of the status, or -1
	fields   []int        // the indices of Fields
	lasts    int          // the index of the duration among the values, or -1

	layers  layers  // the prefixes of all lines
	decoder decoder // nil until the format is known
	why     string  // why it is that format
	title   string  // what the lines are
	known   bool    // whether a line has been decoded
	counted bool    // whether a line is an event, or is left out
	lacking error   // that the first line lacks a field; nil: it has all
	waiting []waitingLine
	record  record
	encoded []byte // the values that an event carries

	batch batch
	send  func(batch) bool // false if the events of this file are not wanted any more

	lines, blank, unreadable, headings, parts, leftOut, cutShort, outOfOrder, mixed int64

	forwarded int64   // events with X-Forwarded-For
	valued    []int64 // events with a value of each of Fields
	fractions bool    // whether a time is no whole second

	faults    []FaultyLine
	unread    *FaultyLine // the first of them that is no comment, if it comes before all lines that are read
	brokenOff []FaultyLine
	billed    int64 // the sum of all estimates and costs
	oldest    int64 // the earliest time of a line so far
	newest    int64 // the latest time of a line so far
	clock     clockWatch
	jump      Jump // the greatest
}

// A waitingLine is a line that waits until the format is known. If why is set, it could not be
// read.
type waitingLine struct {
	text, why string
}

// sampleSize is the number of lines by which the format is detected.
const sampleSize = 32

func newSource(s *Settings, file string, files int) *source {
	return &source{settings: s, file: file, files: files, list: -1, status: -1, lasts: -1, oldest: math.MaxInt64, newest: math.MinInt64,
		wanted: &wanted{time: s.Time, unit: s.Unit, separator: s.Separator, file: file}}
}

// want adds the fields that the settings name to those wanted, for a file that is columns or is not.
// Those of the key come first.
func (s *source) want(columns bool) error {
	s.key = s.settings.keyOf(columns)
	for _, f := range s.key {
		s.wanted.add(f.name, "key")
	}
	switch {
	case len(s.settings.Trust) > 0 && len(s.key) == 0:
		return fmt.Errorf("-trust: %s has columns, and no -key names the column of the address", s.file)
	case len(s.settings.Trust) > 0:
		s.list = s.wanted.add(forwarded, "trust")
	case s.key.hasAddr() && !columns:
		s.list = s.wanted.addIfThere(forwarded)
	}
	clients, err := s.key.clients(s.settings.Trust)
	if err != nil {
		panic(err) // addTrust has refused it
	}
	s.clients = clients
	s.cost = s.indices(s.settings.Cost, "cost")
	s.estimate = s.indices(s.settings.Estimate, "estimate")
	for i := range s.settings.Where {
		s.where = append(s.where, s.wanted.add(s.settings.Where[i].Field, "where"))
	}
	if !columns {
		s.status = s.wanted.addIfThere("status")
	}
	for _, f := range s.settings.Fields {
		s.fields = append(s.fields, s.wanted.add(f.Name, f.For))
	}
	s.valued = make([]int64, len(s.fields))
	if s.settings.Lasting != "" {
		s.lasts = s.wanted.add(lasting, s.settings.Lasting)
	}
	s.record.values = make([]string, len(s.wanted.fields))
	return nil
}

// indices returns the indices of the fields of a sum.
func (s *source) indices(sum *Sum, flag string) (all []int) {
	if sum == nil {
		return nil
	}
	for _, name := range sum.columns {
		all = append(all, s.wanted.add(name, flag))
	}
	return all
}

// take takes a line. An error means that the file lacks the fields that the flags name.
func (s *source) take(line string) error {
	if s.decoder == nil {
		return s.wait(waitingLine{text: line})
	}
	return s.decode(line)
}

// takeUnread takes a line that was not read to its end.
func (s *source) takeUnread(why, beginning string) {
	if s.decoder == nil {
		s.waiting = append(s.waiting, waitingLine{beginning, why})
		return
	}
	s.lines++
	s.fault(why, beginning)
}

// wait keeps a line until there are enough to detect the format.
func (s *source) wait(line waitingLine) error {
	s.waiting = append(s.waiting, line)
	if len(s.waiting) < sampleSize {
		return nil
	}
	return s.detect()
}

// finish ends the file.
func (s *source) finish() error {
	if err := s.detect(); err != nil {
		return err
	}
	if !s.known && s.lacking != nil {
		return s.lacking
	}
	s.endParts()
	s.flush()
	return nil
}

// detect detects the format by the lines that wait, and reads them. If no format reads any, they
// are unreadable, and the format is still not known.
func (s *source) detect() error {
	lines := s.waiting
	s.waiting = nil
	if s.decoder == nil {
		if err := s.unwrapAndChoose(lines); err != nil {
			return err
		}
	}
	for _, l := range lines {
		switch {
		case l.why != "":
			s.lines++
			s.fault(l.why, l.text)
		case s.decoder != nil:
			if err := s.decode(l.text); err != nil {
				return err
			}
		default:
			s.lines++
			if isBlank(l.text) {
				s.blank++
			} else {
				s.faultOfUnknown(l.text)
			}
		}
	}
	return nil
}

// decode reads a line in the format of the file.
func (s *source) decode(line string) error {
	s.lines++
	if len(s.layers) == 0 {
		return s.decodeBare(line, line)
	}
	if isBlank(line) {
		s.blank++
		return nil
	}
	text, earlier, whole, err := s.layers.unwrap(line)
	switch {
	case err != nil:
		// The beginning of a line that is too long was counted as a part of it.
		s.parts -= earlier
		s.unreadable += earlier
		s.fault(err.Error(), line)
		return nil
	case !whole:
		s.parts++
		return nil
	}
	return s.decodeBare(text, line)
}

// endParts counts as unreadable the lines whose rest does not come.
func (s *source) endParts() {
	n := s.layers.unfinished()
	if n == 0 || s.decoder == nil {
		return
	}
	s.parts -= n
	s.unreadable += n - 1
	s.fault("the rest of the line does not come", "")
}

// decodeBare reads a line without prefixes. whole is the line of the file, for messages.
func (s *source) decodeBare(line, whole string) error {
	if isBlank(line) {
		s.blank++
		return nil
	}
	r := &s.record
	r.heading, r.cut = false, false
	err := s.decoder.decode(line, r)
	var lack *lackError
	var header *headerError
	switch {
	case errors.As(err, &header):
		s.headings++
		return header.error
	case errors.As(err, &lack) && !s.known:
		// It may be a line of another kind, such as a server writes at its start.
		if s.lacking == nil {
			s.lacking = lack.of(s.flagText(lack.flag), s.file, s.lines)
		}
		if s.lines >= sampleSize {
			return s.lacking
		}
		s.faultOf(err, line, whole)
		return nil
	case err != nil:
		s.faultOf(err, line, whole)
		return nil
	case r.heading:
		s.headings++
		return nil
	}
	s.known, s.title = true, r.title
	if !s.settings.Selection.has(r.at, s.where, r.values) {
		s.counted = true
		s.leftOut++
		return nil
	}
	if err := s.add(r); err != nil {
		s.fault(err.Error(), whole)
		return nil
	}
	s.counted = true
	if r.cut {
		s.cutShort++
	}
	return nil
}

// flagText returns a flag as it was given.
func (s *source) flagText(flag string) string {
	switch flag {
	case "key":
		return "key " + s.key.String()
	case "cost":
		return "cost " + s.settings.Cost.String()
	case "estimate":
		return "estimate " + s.settings.Estimate.String()
	case "time":
		return "time " + s.settings.Time
	}
	return flag
}

// faultOf counts a line that the format of the file does not read, and says which format does. The line
// of the file is whole.
func (s *source) faultOf(err error, line, whole string) {
	if len(s.faults) < MaxFaults && s.known {
		if title, found := s.otherFormat(line); found {
			s.mixed++
			err = fmt.Errorf("the line is %s, the file %s", title, s.title)
		}
	}
	s.fault(err.Error(), whole)
}

// fault counts the line as unreadable.
func (s *source) fault(why, line string) {
	s.unreadable++
	if len(s.faults) < MaxFaults {
		s.faults = append(s.faults, FaultyLine{s.file, s.lines, why, Clip(line)})
	}
	if !s.counted && s.unread == nil && !strings.HasPrefix(s.bare(line), "#") {
		s.unread = &FaultyLine{s.file, s.lines, why, Clip(line)}
	}
}

// bare returns a line without the prefixes of the file, or as it is if it has others.
func (s *source) bare(line string) string {
	if text, _, whole, err := s.layers.afresh().unwrap(line); err == nil && whole {
		return text
	}
	return line
}

// breakOff records that the file cannot be read beyond this line.
func (s *source) breakOff(err error) {
	s.brokenOff = append(s.brokenOff, FaultyLine{File: s.file, Line: s.lines + int64(len(s.waiting)), Why: err.Error()})
}

// add makes a record an event.
func (s *source) add(r *record) error {
	e := Event{At: r.at, Charge: Charge{1, 1}}
	if s.status >= 0 {
		e.Status = statusOf(r.values[s.status])
	}
	if s.settings.Cost != nil {
		c, err := s.charge(r.values)
		if err != nil {
			return err
		}
		e.Charge = c
	}
	if len(s.fields) > 0 || s.lasts >= 0 {
		if err := s.carry(&e, r.values); err != nil {
			return err
		}
	}
	// The event may still be refused, so the batch keeps its length until all of it is known.
	names := s.batch.names
	names, err := s.appendName(names, r.values)
	if err != nil {
		return err
	}
	s.billed += e.Asked + e.Cost
	s.batch.names = names
	s.batch.ends = append(s.batch.ends, len(names))
	s.batch.events = append(s.batch.events, e)
	if r.at < s.newest {
		s.outOfOrder++
	}
	s.fractions = s.fractions || r.at%int64(time.Second) != 0
	s.oldest, s.newest = min(s.oldest, r.at), max(s.newest, r.at)
	if by, line := s.clock.see(r.at, s.lines); by.Abs() > s.jump.By.Abs() {
		s.jump = Jump{s.file, line, by}
	}
	if len(s.batch.events) == batchSize {
		s.flush()
	}
	return nil
}

// carry sets what e carries. If that is how long e has lasted, it dates e at its beginning.
func (s *source) carry(e *Event, values []string) (err error) {
	e.carried = &carried{}
	if s.lasts >= 0 {
		if e.carried.lasts, err = lastsOf(values[s.lasts]); err != nil {
			return err
		}
		if s.decoder.datesEnds() {
			e.At = window.Plus(e.At, -e.carried.lasts)
		}
	}
	for i, field := range s.fields {
		v := values[field]
		if err := s.settings.Fields[i].check(v); err != nil {
			return err
		}
		switch {
		case v != "" && v != "-":
			s.valued[i]++
		case s.decoder.has(field):
			values[field] = "-"
		default:
			values[field] = ""
		}
	}
	s.encoded = appendFields(s.encoded[:0], values, s.fields)
	e.carried.values = string(s.encoded)
	return nil
}

// appendName appends the name of the client of these values.
func (s *source) appendName(name []byte, values []string) (_ []byte, err error) {
	if len(s.clients) == 0 {
		return append(name, everybody...), nil
	}
	list := ""
	if s.list >= 0 {
		list = values[s.list]
	}
	if list != "" && list != "-" {
		s.forwarded++
	}
	if len(s.settings.Trust) == 0 {
		list = "" // no proxy is believed
	}
	for i := range s.clients {
		if name, err = s.clients[i].append(name, i, values[i], list); err != nil {
			return nil, err
		}
	}
	return name, nil
}

// charge returns the cost of an event. It refuses one with which the sum of all estimates and
// costs of all files might exceed an int64, so that no sum of any of them overflows.
func (s *source) charge(values []string) (c Charge, err error) {
	if c.Cost, err = s.settings.Cost.of(s.cost, values); err != nil {
		return c, err
	}
	c.Asked = c.Cost
	if s.settings.Estimate != nil {
		if c.Asked, err = s.settings.Estimate.of(s.estimate, values); err != nil {
			return c, err
		}
	}
	left := math.MaxInt64/int64(s.files) - s.billed
	if c.Asked > left || c.Cost > left-c.Asked {
		return c, errors.New("with this line all costs add up to more than 64 bits hold")
	}
	return c, nil
}

// flush sends the events read so far.
func (s *source) flush() {
	if len(s.batch.events) > 0 {
		s.send(s.batch)
	}
	s.batch = batch{
		events: make([]Event, 0, batchSize),
		ends:   make([]int, 0, batchSize),
		names:  make([]byte, 0, len(s.batch.names)+len(s.batch.names)/8),
	}
}

// choose chooses the decoder by the settings, or by these lines if they do not tell it. An error
// means that they may be of several formats, or that the flags do not suit the format.
func (s *source) choose(lines []waitingLine) error {
	if s.settings.Format != "" {
		make, err := decoderFor(s.settings.Format)
		if err != nil {
			panic(err) // setFormat has refused it
		}
		return s.use(make, "as -format says", s.settings.columns())
	}
	if s.settings.Time != "" {
		return s.chooseByTime(lines)
	}
	best, reads, score, of := 0, 0, 0, 0
	for i, f := range formats {
		if f.guess == 0 {
			continue
		}
		var n int
		if n, of = readable(f.decoder(&wanted{unit: s.settings.Unit}), lines); n*f.guess > score {
			best, reads, score = i, n, n*f.guess
		}
	}
	if score == 0 {
		return s.checkLists(lines)
	}
	if formats[best].vhost {
		if err := s.checkHosts(lines); err != nil {
			return err
		}
	}
	return s.use(formats[best].decoder, fmt.Sprintf("it reads %d of the first %d lines", reads, of), false)
}

// use sets the decoder of the file.
func (s *source) use(make func(*wanted) decoder, why string, columns bool) error {
	if err := s.want(columns); err != nil {
		return err
	}
	s.decoder, s.why = make(s.wanted), why
	return nil
}

// how says behind which prefixes, and from which fields of JSON, the file is read.
func (s *source) how() (text string) {
	if len(s.layers) > 0 {
		text = ", behind the prefix of " + s.layers.about()
	}
	if j, ok := s.decoder.(*jsonLines); ok {
		text += j.about()
	}
	return text
}

// checkHosts refuses lines if most of them begin with what may be a client behind a proxy as well
// as a virtual host: the second field would then be the proxy, and be taken for the client.
func (s *source) checkHosts(lines []waitingLine) error {
	first, hosts, of := "", 0, 0
	for _, l := range lines {
		host, _, found := strings.Cut(l.text, " ")
		switch {
		case l.why != "" || !found:
			continue
		case isSurelyHost(host):
			hosts++
		case first == "":
			first = l.text
		}
		of++
	}
	if 2*hosts > of {
		return nil // what most lines begin with is surely a host, so all of them begin with hosts
	}
	host, rest, _ := strings.Cut(first, " ")
	client, _, _ := strings.Cut(rest, " ")
	return fmt.Errorf("%s: its lines begin with two addresses such as %s and %s, and nothing tells which is the client. "+
		"If a virtual host comes first: -format vhost_combined. If X-Forwarded-For does: %s", s.file, Clip(host), Clip(client), forwardedFirst)
}

// checkLists refuses lines if one begins with several addresses, as X-Forwarded-For has them.
// No format that is detected reads them.
func (s *source) checkLists(lines []waitingLine) error {
	for _, l := range lines {
		end := endOfList(l.text)
		if l.why != "" || end < 0 {
			continue
		}
		if client, _, several := strings.Cut(l.text[:end], ","); several && isAddress(hostOfAny(client)) {
			return fmt.Errorf("%s: its lines begin with several addresses such as %s, as in X-Forwarded-For. If that comes first: %s", s.file, Clip(l.text[:end]), forwardedFirst)
		}
	}
	return nil
}

// forwardedFirst is the advice for lines that begin with X-Forwarded-For.
const forwardedFirst = `-format '%{X-Forwarded-For}i %h %l %u %t "%r" %>s %b', with all that follows, and -trust, the network of the proxy`

// chooseByTime chooses among the formats whose time -time names.
func (s *source) chooseByTime(lines []waitingLine) error {
	first := ""
	for _, l := range lines {
		if l.why == "" && !isBlank(l.text) {
			first = l.text
			break
		}
	}
	if first == "" {
		return nil
	}
	// A field of JSON may be named like a column, so look at a line. A leading dot is only for JSON.
	if strings.HasPrefix(strings.TrimSpace(first), "{") || strings.HasPrefix(s.settings.Time, ".") {
		return s.use(newJSON, "-time names a field of JSON", false)
	}
	return s.use(func(w *wanted) decoder { return newColumns("csv", w) }, "-time names a column of its header", true)
}

// readable returns how many of the lines a decoder reads, and how many are not blank.
func readable(d decoder, lines []waitingLine) (n, of int) {
	var r record
	for _, l := range lines {
		if l.why != "" || isBlank(l.text) {
			continue
		}
		of++
		r = record{}
		if d.decode(l.text, &r) == nil && !r.heading {
			n++
		}
	}
	return n, of
}

// otherFormat returns what a line is that the format of the file does not read.
func (s *source) otherFormat(line string) (title string, found bool) {
	for _, f := range formats {
		if f.guess < 2 || slices.Contains(f.names, s.decoder.name()) {
			continue
		}
		r := record{}
		if f.decoder(&wanted{}).decode(line, &r) == nil && !r.heading {
			return r.title, true
		}
	}
	return "", false
}

// A clockWatch finds jumps in the times of a file.
type clockWatch struct {
	begun   bool
	last    int64 // the time of the line before
	suspect int64 // the number of the line before if it may be after a jump back; 0 if not
}

// Servers log a request when it ends, so a line may be late without a jump.
const (
	farBack  = 10 * time.Minute
	farAhead = 365 * 24 * time.Hour
)

// see returns the length of the jump before the line that has this time, and the number of the
// line, or 0. A jump back is told by its second line: one late line is no jump.
func (c *clockWatch) see(at, line int64) (by time.Duration, where int64) {
	switch since := difference(at, c.last); {
	case !c.begun:
		c.begun = true
	case since < -farBack && c.suspect == 0:
		c.suspect = line
		return 0, 0
	case since < -farBack:
		by, where = since, c.suspect
	case since > farAhead:
		by, where = since, line
	}
	c.last, c.suspect = at, 0
	return by, where
}

// difference returns a-b, or the nearest Duration.
func difference(a, b int64) time.Duration {
	d := a - b
	switch {
	case a >= b && d < 0:
		return math.MaxInt64
	case a < b && d >= 0:
		return math.MinInt64 + 1
	}
	return time.Duration(d)
}
