package route

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/seed-30da4c49/sash/httplimit/internal/hostname"
)

// readings appends all readings of the host and path of r. A route matches a request if it matches one of
// them, so that no spelling gets past a policy to a handler that reads it in another way:
//
//   - Hosts are compared as names.
//   - A path is read with its escapes, such as %2F, and without them.
//   - A path with "//", "." and ".." is read cleaned and as it is.
//   - A folded path is read with a trailing slash and without one, and in the readings of otherTargets.
func (t *Table) readings(all []*http.Request, r *http.Request) []*http.Request {
	if t.byHost || !strings.HasPrefix(r.URL.Path, "/") {
		r = canonicalRequest(r)
	}
	if t.Paths == Folded { // foldings include the other readings of a path
		for _, other := range append(otherTargets(r), r) {
			all = t.appendFoldings(all, other)
		}
		return all
	}
	p, isEscaped := r.URL.Path, r.URL.RawPath != ""
	all = append(all, r)
	if isEscaped {
		all = append(all, withPath(r, p, ""))
	}
	if !unclean(p) {
		return all
	}
	// A mux cleans all paths but the path of a CONNECT. So it reads neither of these.
	all = append(all, t.literally(r, p, asIs), t.literally(r, cleanPath(p), asIs))
	if isEscaped {
		escaped := r.URL.EscapedPath()
		all = append(all, t.literally(r, escaped, unescape), t.literally(r, cleanPath(escaped), unescape))
	}
	return all
}

// appendFoldings appends r with its path folded, in both readings of its escapes, cleaned and as it is.
func (t *Table) appendFoldings(all []*http.Request, r *http.Request) []*http.Request {
	p, isEscaped := r.URL.Path, r.URL.RawPath != ""
	all = appendFolded(all, withPath(r, path.Clean("/"+fold(p)), ""))
	if isEscaped {
		clean := foldSegments(path.Clean("/" + r.URL.EscapedPath()))
		all = appendFolded(all, withPath(r, unescape(clean), clean))
	}
	if !unclean(p) {
		return all
	}
	all = t.appendLiteral(all, r, p, fold)
	if isEscaped {
		escaped := r.URL.EscapedPath()
		all = t.appendLiteral(all, r, escaped, foldUnescaped)
		all = appendFolded(all, t.literally(r, path.Clean(escaped), foldUnescaped))
	}
	return all
}

// appendLiteral appends r with the path p as it is, whose segments read folds: without its trailing slashes, with
// one, and with all of them. A wildcard matches the empty segments between these.
func (t *Table) appendLiteral(all []*http.Request, r *http.Request, p string, read func(string) string) []*http.Request {
	all = appendFolded(all, t.literally(r, trimSlashes(p), read))
	if strings.HasSuffix(p, "//") {
		all = append(all, t.literally(r, p, read))
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

// canonicalRequest returns r with canonical hosts, and a slash before its path, which a CONNECT may lack.
func canonicalRequest(r *http.Request) *http.Request {
	host, urlHost := hostname.Canonical(r.Host), hostname.Canonical(r.URL.Host)
	rooted := strings.HasPrefix(r.URL.Path, "/")
	if host == r.Host && urlHost == r.URL.Host && rooted {
		return r
	}
	c := withPath(r, r.URL.Path, r.URL.RawPath)
	c.Host, c.URL.Host = host, urlHost
	if !rooted {
		c.URL.Path, c.URL.RawPath = "/"+c.URL.Path, ""
	}
	return c
}

// otherTargets returns r in the readings of fasthttp, the base of fiber, which parses the target again: a
// "#" ends it, and the text between "//" and the next slash may be the host.
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

// withPath returns a request with another path, and with the other fields of r that a mux reads.
func withPath(r *http.Request, path, rawPath string) *http.Request {
	return &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Host: r.URL.Host, Path: path, RawPath: rawPath}}
}

// literally returns r with another path p, which a mux then matches segment by segment. read returns the
// text that a segment of p stands for. A mux takes an empty segment, and the segment "/", for the end of
// the path. They are replaced by t.nameless, which wildcards match, as they match these in other routers.
func (t *Table) literally(r *http.Request, p string, read func(string) string) *http.Request {
	segments := strings.SplitN(p, "/", t.depth+2) // the first one is empty, as p begins with a slash
	for i, s := range segments {
		if i == 0 || s == "" && i == len(segments)-1 { // a trailing slash
			continue
		}
		// The last segment may stand for several ones, which no pattern reads.
		if s = read(s); s == "" || s == "/" || i > t.depth {
			s = t.nameless
		}
		segments[i] = escapeSegment(s)
	}
	escaped := strings.Join(segments, "/")
	return withPath(r, unescape(escaped), escaped)
}

func asIs(segment string) string { return segment }

// unclean reports whether [path.Clean] may change more of p, without escapes, than a trailing slash.
func unclean(p string) bool { return strings.Contains(p, "//") || strings.Contains(p, "/.") }

// cleanPath cleans a path or the path of a pattern, and keeps its trailing slash.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		return clean + "/"
	}
	return clean
}

// trimSlashes trims all slashes from the end of p but the first character, a slash.
func trimSlashes(p string) string { return "/" + strings.TrimRight(p[1:], "/") }

// fold replaces each letter of s by the smallest of the letters that [strings.EqualFold] treats as equal.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		first := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			first = min(first, other)
		}
		return first
	}, s)
}

func foldUnescaped(s string) string { return fold(unescape(s)) }

// foldSegments folds the segments of p, but no wildcards. It keeps escapes. p is the path of a pattern,
// or an escaped path, whose segments never begin like a wildcard.
func foldSegments(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") {
			segments[i] = escapeSegment(foldUnescaped(s))
		}
	}
	return strings.Join(segments, "/")
}

// escapeSegment escapes a segment, also "." and "..", which a mux would clean.
func escapeSegment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// unescape returns s with its escapes replaced or, like a mux, s itself if it is malformed.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
