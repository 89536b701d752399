// Command site makes a web site of the documents of this repository.
//
//	go run ./site -o DIR
//
// The pages are the Markdown files, as GitHub shows them. A link to a file or directory that is no
// page leads into the repository. The pages link to each other relatively, and load nothing from elsewhere. So
// the site works under any address, and from the files.
package main

import (
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("site: ")
	out := flag.String("o", "", "the `directory` to write, new or empty")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: go run ./site -o directory")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("no arguments are expected, got %q", flag.Args())
	}
	if files, err := os.ReadDir(*out); *out == "" || err == nil && len(files) > 0 {
		log.Fatalf("-o must name a directory that is new or empty, not %q", *out)
	}
	if err := build(".", *out); err != nil {
		log.Fatal(err)
	}
}

// repository is where the files are that are no pages.
const repository = "https://github.com/seed-30da4c49/sash"

//go:embed page.html style.css site.js
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "page.html"))

// A site is being written. Its pages are made of the documents of the repository root.
type site struct {
	Repository string
	Groups     []group
	root       fs.FS
	out        string
	pages      []*page
	bySource   map[string]*page
}

// A group is a part of the list of all pages.
type group struct {
	Name  string
	Pages []*page
}

// A page is one Markdown file, and what is made of it.
type page struct {
	Site     *site
	Source   string // the Markdown file, below the root of the repository
	File     string // the HTML file, below the root of the site
	Title    string // the first heading, or the directory of a module
	Body     template.HTML
	Sections []section // the first is what comes before the second heading
}

// A section is a heading with the text up to the next heading.
type section struct {
	Level                 int
	Anchor, Heading, text string
}

// build writes the site of the repository root into the directory out.
func build(root, out string) error {
	s := &site{Repository: repository, root: os.DirFS(root), out: out, bySource: make(map[string]*page)}
	// A new document of docs comes after those that have a place here.
	faults := []error{
		s.addGroup("Start", "README.md", "docs/first-hour.md", "docs/guide.md", "docs/recipes.md", "docs/frameworks.md", "docs/migrating.md"),
		s.addGroup("Limits", "docs/operators.md", "docs/formats.md", "docs/algorithms.md"),
		s.addGroup("Evidence", "docs/guarantees.md", "docs/performance.md", "docs/history.md", "docs/compatibility.md", "docs/*.md"),
		s.addGroup("Modules", "*/README.md", "*/*/README.md"),
		s.addGroup("Project", "*.md"),
	}
	var index [][]string // for each section: the page, the anchor, the page's title, the heading, the text
	for _, p := range s.pages {
		faults = append(faults, s.render(p))
		for _, part := range p.Sections {
			index = append(index, []string{p.File, part.Anchor, p.Title, part.Heading, part.text})
		}
	}
	for _, p := range s.pages { // all titles are known now
		var text strings.Builder
		faults = append(faults, layout.Execute(&text, p), s.write(p.File, []byte(text.String())))
	}
	for _, name := range []string{"style.css", "site.js"} {
		text, err := assets.ReadFile(name)
		faults = append(faults, err, s.write(name, text))
	}
	text, err := json.Marshal(index)
	return errors.Join(append(faults, err, s.write("index.js", []byte("const index = "+string(text)+";\n")))...)
}

// addGroup adds a group of the documents that match the patterns and are in no earlier group.
func (s *site) addGroup(name string, patterns ...string) error {
	g := group{Name: name}
	for _, pattern := range patterns {
		sources, err := fs.Glob(s.root, pattern)
		if err != nil {
			return err
		}
		for _, source := range sources {
			if s.bySource[source] != nil {
				continue
			}
			p := &page{Site: s, Source: source, File: strings.TrimSuffix(source, ".md") + ".html"}
			if dir, file := path.Split(source); file == "README.md" {
				p.File, p.Title = dir+"index.html", strings.TrimSuffix(dir, "/")
			}
			s.bySource[source] = p
			s.pages, g.Pages = append(s.pages, p), append(g.Pages, p)
		}
	}
	s.Groups = append(s.Groups, g)
	return nil
}

// To returns the relative address of a file of the site in p.
func (p *page) To(file string) string {
	return strings.Repeat("../", strings.Count(p.File, "/")) + file
}

// write writes a file of the site.
func (s *site) write(file string, text []byte) error {
	name := filepath.Join(s.out, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
