package route

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/seed-30da4c49/sash/httplimit/internal/hostname"
)

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
		otherHost.Host, otherHost.URL.Host = hostname.Canonical(host[strings.LastIndexByte(host, '@')+1:]), ""
		others = append(others, sameHost, otherHost)
	}
	return others
}

// appendFoldings appends r with its path folded, in both readings of its escapes.
func (t *Table) appendFoldings(all []*http.Request, r *http.Request) []*http.Request {
	all = appendFolded(all, withPath(r, path.Clean("/"+fold(r.URL.Path)), ""))
	if r.URL.RawPath != "" {
		escaped := foldSegments(path.Clean("/" + r.URL.EscapedPath()))
		all = appendFolded(all, withPath(r, unescape(escaped), escaped))
	}
	if unclean(r.URL.Path) {
		all = t.appendUncleanFoldings(all, r)
	}
	return all
}

// appendFolded appends a request with a folded path, without a trailing slash and with one.
func appendFolded(all []*http.Request, r *http.Request) []*http.Request {
	all = append(all, r)
	if r.URL.Path == "/" { // there is nothing without the slash
		return all
	}
	escaped := r.URL.RawPath
	if escaped != "" {
		escaped += "/"
	}
	return append(all, withPath(r, r.URL.Path+"/", escaped))
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

// foldSegments folds the segments of p, but no wildcards. It keeps escapes. p is the path of a pattern,
// or an escaped path, whose segments never begin like a wildcard.
func foldSegments(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") {
			segments[i] = foldSegment(s)
		}
	}
	return strings.Join(segments, "/")
}

// foldSegment folds a segment, and keeps its escapes.
func foldSegment(s string) string { return escapeSegment(foldUnescaped(s)) }

func foldUnescaped(s string) string { return fold(unescape(s)) }

// unescape returns s with its escapes replaced. Like a mux, it returns s itself if it
// is malformed.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
