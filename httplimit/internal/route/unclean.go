package route

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// unclean reports whether [path.Clean] may change more of p than a trailing slash. It is
// also true of some clean paths, such as /.well-known. p has no escapes.
func unclean(p string) bool { return strings.Contains(p, "//") || strings.Contains(p, "/.") }

// appendUnclean appends r with its path, which is unclean, as it is and cleaned. A mux does
// not read it so: it cleans all paths but the path of a CONNECT.
func (t *Table) appendUnclean(all []*http.Request, r *http.Request) []*http.Request {
	all = append(all, t.literally(r, r.URL.Path, asIs), t.literally(r, cleanPath(r.URL.Path), asIs))
	if escaped := r.URL.EscapedPath(); r.URL.RawPath != "" {
		all = append(all, t.literally(r, escaped, unescape), t.literally(r, cleanPath(escaped), unescape))
	}
	return all
}

// appendUncleanFoldings is appendUnclean for folded paths. It leaves out the readings that
// appendFoldings has.
func (t *Table) appendUncleanFoldings(all []*http.Request, r *http.Request) []*http.Request {
	all = appendFolded(all, t.literally(r, trimSlashes(r.URL.Path), fold))
	if r.URL.RawPath != "" {
		escaped := trimSlashes(r.URL.EscapedPath())
		all = appendFolded(all, t.literally(r, escaped, foldUnescaped))
		all = appendFolded(all, t.literally(r, path.Clean(escaped), foldUnescaped))
	}
	return all
}

// trimSlashes trims all slashes from the end of p but the first character, a slash.
func trimSlashes(p string) string { return "/" + strings.TrimRight(p[1:], "/") }

// literally returns r with another path p, which a mux then matches segment by segment. read
// returns the text that a segment of p stands for.
//
//   - A mux cleans the segments "." and "..", so they are escaped.
//   - It takes an empty segment, and the segment "/", for the end of the path. They are
//     replaced by a segment that wildcards match, as they match these in other routers.
//   - No pattern reads more than depth segments. One segment stands for all others, so that
//     a long path costs no more.
func (t *Table) literally(r *http.Request, p string, read func(string) string) *http.Request {
	const nameless = "\x00"
	segments := strings.SplitN(p, "/", t.depth+2) // the first one is empty, as p begins with a slash
	for i, s := range segments {
		first, trailingSlash := i == 0, s == "" && i == len(segments)-1
		switch {
		case first || trailingSlash:
			continue
		case i > t.depth:
			s = nameless
		default:
			s = read(s)
		}
		if s == "" || s == "/" {
			s = nameless
		}
		segments[i] = escapeSegment(s)
	}
	escaped := strings.Join(segments, "/")
	return withPath(r, unescape(escaped), escaped)
}

func asIs(segment string) string { return segment }

// escapeSegment escapes a segment. The segments "." and ".." are escaped, too, since a mux
// reads them as a place in the tree.
func escapeSegment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// cleanPath cleans a path or the path of a pattern, and keeps its trailing slash.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		return clean + "/"
	}
	return clean
}
