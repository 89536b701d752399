package docs

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fileMention matches the name of a file. A reader of pkg.go.dev has neither the source nor the
// README at hand.
var fileMention = regexp.MustCompile(`\b[\w-]+\.(?:go|md)\b|\bREADME\b`)

func TestComments_SendNoReaderToAnotherFile(t *testing.T) {
	for name, file := range sources(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, comment := range docComments(file) {
			if mention := fileMention.FindString(comment.Text()); mention != "" {
				t.Errorf("%s: a doc comment sends its reader to %s:\n%s", name, mention, comment.Text())
			}
		}
	}
}

// docComments returns the comments of file outside of function bodies.
func docComments(file *ast.File) []*ast.CommentGroup {
	return slices.DeleteFunc(slices.Clone(file.Comments), func(c *ast.CommentGroup) bool {
		return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Body != nil && f.Body.Pos() <= c.Pos() && c.End() <= f.Body.End()
		})
	})
}

// brackets matches a link in the source of a comment. A link to a name that does not exist, or
// one that a letter follows, is shown with its brackets.
var brackets = regexp.MustCompile(`\[\*?[A-Za-z][\w.]*\]`)

func TestComments_LinksOfPublicPackagesLeadSomewhere(t *testing.T) {
	byDir := make(map[string][]string)
	for _, name := range files(t, ".go") {
		if dir := filepath.Dir(name); !strings.Contains(dir, "internal") && !strings.HasSuffix(name, "_test.go") {
			byDir[dir] = append(byDir[dir], name)
		}
	}
	checked := 0
	for dir, names := range byDir {
		fset := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range names {
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
			require.NoError(t, err)
			parsed = append(parsed, file)
		}
		if parsed[0].Name.Name == "main" {
			continue
		}
		p, err := doc.NewFromFiles(fset, parsed, "example.com/"+dir, doc.PreserveAST)
		require.NoError(t, err)
		for _, file := range parsed {
			for _, group := range docComments(file) {
				checked++
				for _, shown := range brackets.FindAllString(plain(p.Parser().Parse(group.Text())), -1) {
					t.Errorf("%s: %s is shown with its brackets:\n%s", dir, shown, group.Text())
				}
			}
		}
	}
	require.Greater(t, checked, 200)
}

// plain returns the text of d without its links and code.
func plain(d *comment.Doc) string {
	var text strings.Builder
	for _, block := range d.Content {
		plainBlock(&text, block)
	}
	return text.String()
}

func plainBlock(text *strings.Builder, block comment.Block) {
	switch b := block.(type) {
	case *comment.Paragraph:
		plainText(text, b.Text)
	case *comment.Heading:
		plainText(text, b.Text)
	case *comment.List:
		for _, item := range b.Items {
			for _, block := range item.Content {
				plainBlock(text, block)
			}
		}
	}
}

func plainText(text *strings.Builder, parts []comment.Text) {
	for _, part := range parts {
		if p, ok := part.(comment.Plain); ok {
			text.WriteString(string(p))
		}
	}
	text.WriteByte('\n')
}
