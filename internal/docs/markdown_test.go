package docs

import (
	"regexp"
	"strings"
)

// A passage is a part of the text of a document, with the line on which it begins, from 1.
type passage struct {
	line int
	text string
}

// A document holds the parts of a Markdown file.
type document struct {
	blocks []passage // the lines of code blocks that are not of Go
	spans  []passage // the texts in single backticks, each on one line
	prose  []passage // the paragraphs, without their spans and links
	links  []passage // the targets of links
}

var (
	span = regexp.MustCompile("`([^`]*)`")
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// parseMarkdown takes the text of a file apart. A backslash is not an escape.
func parseMarkdown(text string) (d document) {
	var paragraph passage
	fence := false
	code := false // the block is not of Go
	flush := func() {
		if paragraph.text != "" {
			d.addParagraph(paragraph)
		}
		paragraph = passage{}
	}
	for i, line := range strings.Split(text, "\n") {
		switch info, fences := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case fences && fence:
			fence = false
		case fences:
			flush()
			fence, code = true, info != "go"
		case fence && code:
			d.blocks = append(d.blocks, passage{i + 1, line})
		case fence: // code of Go
		case strings.TrimSpace(line) == "":
			flush()
		case paragraph.text == "":
			paragraph = passage{i + 1, line}
		default:
			paragraph.text += "\n" + line
		}
	}
	flush()
	d.blocks = joined(d.blocks)
	return d
}

// addParagraph adds a paragraph to the prose of d, and its spans and links to the ones of d.
func (d *document) addParagraph(p passage) {
	at := func(offset int) int { return p.line + strings.Count(p.text[:offset], "\n") }
	for _, m := range span.FindAllStringSubmatchIndex(p.text, -1) {
		d.spans = append(d.spans, passage{at(m[0]), strings.Join(strings.Fields(p.text[m[2]:m[3]]), " ")})
	}
	for _, m := range link.FindAllStringSubmatchIndex(p.text, -1) {
		d.links = append(d.links, passage{at(m[0]), p.text[m[2]:m[3]]})
	}
	keepLines := func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }
	p.text = link.ReplaceAllString(span.ReplaceAllStringFunc(p.text, keepLines), "]")
	d.prose = append(d.prose, p)
}

// joined joins each line that ends in a backslash with the next one.
func joined(lines []passage) (all []passage) {
	continued := false
	for _, l := range lines {
		text, more := strings.CutSuffix(l.text, "\\")
		if continued {
			all[len(all)-1].text += text
		} else {
			all = append(all, passage{l.line, text})
		}
		continued = more
	}
	return all
}

// commands splits a line of shell at pipes, && and semicolons, and returns the words of each
// command, without their quotes.
func commands(line string) (all [][]string) {
	var words []string
	end := func() {
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for _, token := range shellToken.FindAllString(line, -1) {
		switch {
		case strings.HasPrefix(token, "#"):
			end()
			return all
		case strings.Trim(token, "|&;") == "":
			end()
		default:
			words = append(words, unquoted(token))
		}
	}
	end()
	return all
}

var (
	shellToken = regexp.MustCompile(`#.*|[|&;]+|(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\|&;])+`)
	shellQuote = regexp.MustCompile(`'([^']*)'|"([^"]*)"|\\(.)`)
)

func unquoted(token string) string { return shellQuote.ReplaceAllString(token, "$1$2$3") }
