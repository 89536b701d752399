package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"html"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	renderer "github.com/yuin/goldmark/renderer/html"
)

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithRendererOptions(renderer.WithUnsafe())) // the documents are our own

// In what goldmark writes, the angle brackets and quotes of text are escaped. So these match tags and their
// attributes, and no text.
var (
	tag     = regexp.MustCompile(`<[^>]*>`)
	title   = regexp.MustCompile(`(?s)<h([1-6])>(.*?)</h[1-6]>`)
	address = regexp.MustCompile(`\b(href|src|srcset)="([^"]*)"`)
	foreign = regexp.MustCompile(`<img src="https?:[^>]* alt="([^"]*)"[^>]*>`)
	goCode  = regexp.MustCompile(`(?s)<pre><code class="language-go">(.*?)</code></pre>`)
)

// render makes the body of a page, and copies its pictures.
func (s *site) render(p *page) error {
	source, err := fs.ReadFile(s.root, p.Source)
	if err != nil {
		return err
	}
	var rendered bytes.Buffer
	if err := markdown.Convert(source, &rendered); err != nil {
		return err
	}
	body := foreign.ReplaceAllString(rendered.String(), "$1") // a badge: nothing is loaded from elsewhere
	var faults []error
	body = address.ReplaceAllStringFunc(p.anchor(body), func(attribute string) string {
		m := address.FindStringSubmatch(attribute)
		to, err := s.resolve(p, html.UnescapeString(m[2]), m[1] != "href")
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: a link to %s: %w", p.Source, m[2], err))
		}
		return fmt.Sprintf(`%s="%s"`, m[1], html.EscapeString(to))
	})
	body = goCode.ReplaceAllStringFunc(body, func(block string) string {
		return codeBlock(html.UnescapeString(goCode.FindStringSubmatch(block)[1]))
	})
	body = strings.NewReplacer("<table>", `<div class="scroll"><table>`, "</table>", "</table></div>").Replace(body)
	p.Body = template.HTML(body)
	return errors.Join(faults...)
}

// anchor finds the title and the sections of p, and returns its body with an anchor at each heading.
func (p *page) anchor(body string) string {
	used := make(map[string]int)
	for i, m := range title.FindAllStringSubmatch(body, -1) {
		whole, heading := m[0], plain(m[2])
		if i == 0 && p.Title == "" {
			p.Title = heading
		}
		anchor := anchorOf(heading)
		if used[anchor]++; used[anchor] > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, used[anchor]-1)
		}
		anchored := fmt.Sprintf(`<h%[1]s id="%[2]s">%[3]s <a class="anchor" href="#%[2]s" aria-label="Link to this section">#</a></h%[1]s>`,
			m[1], anchor, m[2])
		before, after, _ := strings.Cut(body, whole) // the headings before this one have their anchors
		body = before + anchored + after
		text := after
		if next := title.FindStringIndex(after); next != nil {
			text = after[:next[0]]
		}
		p.Sections = append(p.Sections, section{int(m[1][0] - '0'), anchor, heading, plain(text)})
	}
	return body
}

// plain returns the text of a piece of HTML.
func plain(text string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(text, ""))), " ")
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchorOf returns the anchor that GitHub makes of a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// resolve returns where a link of p leads on the site. If it is to be shown, the file is copied.
func (s *site) resolve(p *page, link string, shown bool) (string, error) {
	to, err := url.Parse(link)
	if err != nil || to.Scheme != "" || to.Path == "" {
		return link, err
	}
	target := path.Join(path.Dir(p.Source), to.Path)
	info, err := fs.Stat(s.root, target)
	if err != nil {
		return "", err
	}
	if shown {
		text, err := fs.ReadFile(s.root, target)
		return (&url.URL{Path: p.To(target)}).String(), errors.Join(err, s.write(target, text))
	}
	for _, document := range []string{target, path.Join(target, "README.md")} {
		if q := s.bySource[document]; q != nil {
			to.Path = p.To(q.File)
			return to.String(), nil
		}
	}
	kind := "/blob/main/"
	if info.IsDir() {
		kind = "/tree/main/"
	}
	to.Path = ""
	return repository + kind + target + to.String(), nil
}

// proof says that a program of a document is tested, and by what.
const proof = `<p class="proof">A whole program. <a href="` + repository +
	`/blob/main/internal/docs/gocode_test.go">A test</a> runs it, and compares what it prints.</p>`

// codeBlock returns a block of Go, with its keywords, strings and comments marked.
func codeBlock(code string) string {
	code = strings.ReplaceAll(code, "\r", "") // which the scanner leaves out of comments
	var b strings.Builder
	b.WriteString(`<pre><code class="language-go">`)
	files, done := token.NewFileSet(), 0
	file := files.AddFile("", -1, len(code))
	var scan scanner.Scanner
	scan.Init(file, []byte(code), nil, scanner.ScanComments)
	for pos, kind, text := scan.Scan(); kind != token.EOF; pos, kind, text = scan.Scan() {
		class := ""
		switch {
		case kind == token.COMMENT:
			class = "comment"
		case kind == token.STRING || kind == token.CHAR:
			class = "string"
		case kind.IsKeyword():
			class = "keyword"
		default:
			continue
		}
		start := file.Offset(pos)
		fmt.Fprintf(&b, `%s<span class="%s">%s</span>`, html.EscapeString(code[done:start]), class, html.EscapeString(text))
		done = start + len(text)
	}
	b.WriteString(html.EscapeString(code[done:]) + "</code></pre>")
	if strings.Contains("\n"+code, "\npackage main\n") && strings.Contains(code, "// Output:\n") {
		b.WriteString(proof)
	}
	return b.String()
}
