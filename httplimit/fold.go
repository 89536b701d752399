package httplimit

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"
)

// FoldsPaths reports whether l was given [WithPathFolding]. Adapters of routers that serve
// several spellings of a path alike ask for it.
func (l *Limiter) FoldsPaths() bool { return l.foldPaths }

// otherTargets returns r in the readings of a router that parses the target of the
// request again. So does fasthttp, the base of fiber: it drops everything from a "#"
// on, and may take the text between "//" and the next slash for the host.
func otherTargets(r *http.Request) (others []*http.Request) {
	target, _, cut := strings.Cut(r.URL.RawPath, "#") // a path with "#" always has a RawPath
	if cut {
		others = append(others, withPath(r, unescape(target), target))
	}
	if target == "" {
		target = r.URL.Path
	}
	if authority, found := strings.CutPrefix(target, "//"); found {
		host, rest, _ := strings.Cut(authority, "/")
		sameHost := withPath(r, unescape("/"+rest), "/"+rest)
		otherHost := withPath(r, sameHost.URL.Path, sameHost.URL.RawPath)
		otherHost.Host, otherHost.URL.Host = canonicalHost(host[strings.LastIndexByte(host, '@')+1:]), ""
		others = append(others, sameHost, otherHost)
	}
	return others
}

// appendFoldings appends r with its path folded, in both readings of its escapes.
func appendFoldings(all []*http.Request, r *http.Request) []*http.Request {
	all = appendFolded(all, r, path.Clean("/"+fold(r.URL.Path)), "")
	if r.URL.RawPath != "" {
		escaped := foldEscaped(path.Clean("/" + r.URL.EscapedPath()))
		all = appendFolded(all, r, unescape(escaped), escaped)
	}
	return all
}

// appendFolded appends r with the path folded, without a trailing slash and with one.
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

// fold replaces each letter of s by the smallest of the letters that
// [strings.EqualFold] treats as equal.
func fold(s string) string { return strings.Map(foldRune, s) }

// foldRune returns the smallest rune that is equal to r under simple folding.
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

// foldEscaped folds the characters that the escapes in a path stand for, and keeps the
// escapes.
func foldEscaped(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i] = foldSegment(s)
	}
	return strings.Join(segments, "/")
}

// foldSegment folds a segment with escapes. The segments "." and ".." stay escaped,
// since a mux reads them as a place in the tree.
func foldSegment(s string) string {
	if s = fold(unescape(s)); s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// unescape returns s with its escapes replaced. Like a mux, it returns s itself if it
// is malformed.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
