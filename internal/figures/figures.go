// Package figures finds and fills the figures of speed and memory in the documents. They stand between
// markers, which Markdown does not show:
//
//	A call takes <!-- figures allow-one -->a figure<!-- /figures --> on one key.
//
//	<!-- figures speed-allow -->
//	a table
//	<!-- /figures -->
//
// One command measures all of them, and writes them: go run ./bench -publish.
package figures

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Others is the name of blocks of figures that others have published. They are written by hand, and each of
// these blocks has a link to where they are from.
const Others = "of others"

// Exempt are the documents that the publication leaves alone. Logs of experiments, of releases and of instruction
// counts have figures of many commits. Another command writes the figures of the guarantees, at commits of its own.
var Exempt = []string{"bench/NOTES.md", "CHANGELOG.md", "docs/history.md", "docs/guarantees.md"}

var (
	marker    = regexp.MustCompile(`<!-- figures ([^>]*?) -->|<!-- /figures -->`)
	anyMarker = regexp.MustCompile(`<!--[^>]*\bfigures\b[^>]*-->`)
)

// A Block is what stands between two markers.
type Block struct {
	Name string
	Text string // without the space around it

	from, to int  // of the text in the document
	whole    bool // whether the opening marker ends its line
}

// Parse returns the blocks of a document. Its error names each marker that is wrong.
func Parse(document string) (all []Block, err error) {
	var faults []error
	fault := func(at int, format string, a ...any) {
		faults = append(faults, fmt.Errorf("line %d: "+format, append([]any{line(document, at)}, a...)...))
	}
	for _, m := range anyMarker.FindAllStringIndex(document, -1) {
		if text := document[m[0]:m[1]]; marker.FindString(text) != text {
			fault(m[0], "%s is no marker", text)
		}
	}
	var open *Block
	for _, m := range marker.FindAllStringSubmatchIndex(document, -1) {
		switch opens := m[2] >= 0; {
		case opens && open != nil:
			fault(m[0], "figures %s are in figures %s", document[m[2]:m[3]], open.Name)
		case opens:
			open = &Block{Name: document[m[2]:m[3]], from: m[1], whole: strings.HasPrefix(document[m[1]:], "\n")}
		case open == nil:
			fault(m[0], "no figures end here")
		default:
			open.to = m[0]
			open.Text = strings.TrimSpace(document[open.from:open.to])
			all, open = append(all, *open), nil
		}
	}
	if open != nil {
		fault(open.from, "figures %s do not end", open.Name)
	}
	return all, errors.Join(faults...)
}

func line(document string, at int) int { return 1 + strings.Count(document[:at], "\n") }

// Fill returns the document with the texts of values between its markers. Its error names each marker that
// is wrong, and each name that has no value.
func Fill(document string, values map[string]string) (string, error) {
	blocks, err := Parse(document)
	faults := []error{err}
	for _, b := range slices.Backward(blocks) {
		text, ok := values[b.Name]
		switch {
		case b.Name == Others:
			continue
		case !ok:
			faults = append(faults, fmt.Errorf("line %d: nothing measures figures %s", line(document, b.from), b.Name))
		case b.whole:
			text = "\n\n" + text + "\n\n"
		case strings.Contains(text, "\n"):
			faults = append(faults, fmt.Errorf("line %d: figures %s are more than a line", line(document, b.from), b.Name))
		}
		document = document[:b.from] + text + document[b.to:]
	}
	return document, errors.Join(faults...)
}

var (
	fence  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inCode = regexp.MustCompile("`[^`\n]*`")

	// A time with its unit, a rate, or a ratio of times.
	figure = regexp.MustCompile(shortTime + `|` + number + gap + `m(?:s|secs?|illis|illisecs?|illiseconds?)\b|` + rate + `|` + ratio +
		`|\b\d+\.\d+ (?:s|seconds|×)`)
	hex = regexp.MustCompile(`(?:^|[\s|(` + "`" + `])([0-9a-f]{7,40})\b`)
)

const (
	number    = `\b\d[\d,.]*`
	gap       = `[ \x{a0}*_-]*` // and what Markdown may have between a number and its unit
	shortTime = number + gap + `(?:[nuµμ]s(?:ecs?)?|(?:nano|micro)(?:s|secs?|seconds?))\b`
	rate      = number + `(?: ?[kM])?` + gap + `(?:decisions(?:/s| a second| per second)|calls/s)\b` +
		`|(?:\b\d[\d,.]* ?[kM]|\b(?:million|thousand)) ?(?:/s| \w+/s| ?(?:\w+ )?(?:a|per|each) second)\b`
	ratio = `\b(?:\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten|twenty|a hundred) ?(?:times|×|x) ` +
		`(?:as (?:fast|long|slow)|the (?:time|speed)|faster|slower)\b` +
		`|\b(?:twice|half) (?:as (?:fast|slow)|the (?:time|speed))\b` +
		`|` + number + ` ?(?:%|percent|per cent) (?:faster|slower|less time|more time|of the time)\b`
)

// Commits returns where text names a commit: hexadecimal digits that are no number, or that follow the word.
func Commits(text string) (places [][]int) {
	for _, m := range hex.FindAllStringSubmatchIndex(text, -1) {
		id := text[m[2]:m[3]]
		follows := strings.HasSuffix(strings.TrimRight(text[:m[2]], " \n`"), "commit")
		if follows || strings.ContainsAny(id, "abcdef") && strings.ContainsAny(id, "0123456789") {
			places = append(places, m[2:])
		}
	}
	return places
}

// Outside returns a fault for each figure, and for each commit, that stands outside of the markers and of
// code. A passage of allowed is no figure. Outside strikes each that it finds from unused.
func Outside(document string, allowed []string, unused map[string]bool) (faults []error) {
	blocks, _ := Parse(document) // the faults of markers are another matter
	blank := func(s string) string {
		return strings.Repeat("\n", strings.Count(s, "\n")) + strings.Repeat(" ", len(s)-strings.Count(s, "\n"))
	}
	rest := document
	for _, b := range blocks {
		rest = rest[:b.from] + blank(rest[b.from:b.to]) + rest[b.to:]
	}
	rest = fence.ReplaceAllStringFunc(rest, blank)
	for _, a := range allowed {
		if strings.Contains(rest, a) {
			delete(unused, a)
			rest = strings.ReplaceAll(rest, a, blank(a))
		}
	}
	for _, m := range Commits(rest) {
		faults = append(faults, fmt.Errorf("line %d: commit %s is named outside of the markers of figures", line(rest, m[0]), rest[m[0]:m[1]]))
	}
	rest = inCode.ReplaceAllStringFunc(rest, func(code string) string {
		if strings.Contains(code, " ") && figure.MatchString(code) {
			return code // durations in code have no space
		}
		return blank(code)
	})
	oneLine := strings.ReplaceAll(rest, "\n", " ")
	for _, m := range figure.FindAllStringIndex(oneLine, -1) {
		faults = append(faults, fmt.Errorf("line %d: %q is outside of the markers of figures", line(rest, m[0]), oneLine[m[0]:m[1]]))
	}
	return faults
}

// InComment returns the figures in a comment of Go code, but for the passages of allowed. A comment cannot carry
// markers.
func InComment(text string, allowed []string, unused map[string]bool) []string {
	for _, a := range allowed {
		if strings.Contains(text, a) {
			delete(unused, a)
			text = strings.ReplaceAll(text, a, "")
		}
	}
	return inComment.FindAllString(text, -1)
}

// inComment leaves out milliseconds, which in comments are settings.
var inComment = regexp.MustCompile(shortTime + `|` + rate + `|` + ratio)

// Agree returns the faults of the blocks of all documents together: blocks of one name that differ, a
// name that is in no block of the page, commits that differ, and a block of others without a link.
func Agree(page string, documents map[string]string) (faults []error) {
	first, in, named := map[string]string{}, map[string]string{}, map[string]string{}
	onPage := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		blocks, err := Parse(documents[name])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
		for _, b := range blocks {
			if b.Name == Others {
				if !strings.Contains(b.Text, "](http") {
					faults = append(faults, fmt.Errorf("%s: figures of others have no link", name))
				}
				continue
			}
			onPage[b.Name] = onPage[b.Name] || name == page
			if text, ok := first[b.Name]; ok && text != b.Text {
				faults = append(faults, fmt.Errorf("%s and %s: figures %s differ", in[b.Name], name, b.Name))
			}
			first[b.Name], in[b.Name] = b.Text, name
			if b.Text == "" {
				faults = append(faults, fmt.Errorf("%s: there are no figures %s", name, b.Name))
			}
			for _, m := range Commits(b.Text) {
				named[b.Text[m[0]:m[1]]] = name
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if !onPage[name] {
			faults = append(faults, fmt.Errorf("%s: figures %s are not in %s", in[name], name, page))
		}
	}
	if len(named) != 1 {
		faults = append(faults, fmt.Errorf("the figures name %d commits, want one: %v", len(named), named))
	}
	return faults
}
