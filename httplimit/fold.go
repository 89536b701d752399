package httplimit

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"
)

// appendFolded appends r with a folded path, without a trailing slash and with one.
// escaped is the path with its escapes, or empty if it needs none.
func appendFolded(all []*http.Request, r *http.Request, folded, escaped string) []*http.Request {
	all = append(all, withPath(r, folded, escaped))
	if folded == "/" {
		return all
	}
	if escaped != "" {
		escaped += "/"
	}
	return append(all, withPath(r, folded+"/", escaped))
}

// fold returns s with each letter replaced by the first of those that
// [strings.EqualFold] holds equal to it.
func fold(s string) string { return strings.Map(foldRune, s) }

func foldRune(r rune) rune {
	first := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		first = min(first, other)
	}
	return first
}

// cleanPattern cleans the path of a pattern, and keeps its trailing slash.
func cleanPattern(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		return clean + "/"
	}
	return clean
}

// foldPattern folds the literal segments of the path of a pattern.
func foldPattern(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") {
			segments[i] = foldSegment(s)
		}
	}
	return strings.Join(segments, "/")
}

// foldEscaped folds what the escapes in a path stand for, and keeps the escapes.
func foldEscaped(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i] = foldSegment(s)
	}
	return strings.Join(segments, "/")
}

// foldSegment folds a segment with escapes. A "%2E" stays one, since a mux reads "."
// and ".." as a place in the tree.
func foldSegment(s string) string {
	if s = fold(unescape(s)); s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// unescape returns what an escaped text stands for, or the text itself if it is not
// well-formed, as a mux does.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
