package docs

import (
	"regexp"
	"strings"
)

// A passage is some text of a document, and the line on which it begins, from 1.
type passage struct {
	line int
	text string
}

// A document is what is written in Markdown, taken apart.
type document struct {
	blocks []passage // the lines of code blocks, but for those of Go
	spans  []passage // what stands in single backticks, on one line
	prose  []passage // paragraphs, without their spans and links
	links  []passage // what links lead to
}

var (
	span = regexp.MustCompile("`([^`]*)`")
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// parseMarkdown reads text as it stands in the file: no backslash is taken for an escape.
func parseMarkdown(text string) (d document) {
	var paragraph passage
	fence := false
	code := false // whether the block is of commands
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

// joined makes one of each line that ends in a backslash and those that it goes on in.
func joined(lines []passage) (all []passage) {
	goesOn := false
	for _, l := range lines {
		text, more := strings.CutSuffix(l.text, "\\")
		if goesOn {
			all[len(all)-1].text += text
		} else {
			all = append(all, passage{l.line, text})
		}
		goesOn = more
	}
	return all
}

// commands returns the simple commands in a line of shell, each as its words: those
// between pipes, && and semicolons. A word's quotes are taken off.
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
