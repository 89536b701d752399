package replay

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A describer makes requests and responses of events, with all that the policies of a file look at. Its
// methods are about the event that describe was given last.
type describer struct {
	method, path             int // indices of the values
	host, addr, status, size int // the same; -1: not needed
	headers, answers         []headerAt
	routes                   *http.ServeMux // nil: no key is the route
	proxies                  []netip.Prefix
	values                   []string

	fromProxies int64 // requests from trusted proxies
}

// A headerAt is a header, and the index of its value.
type headerAt struct {
	name  string
	index int
}

func newDescriber(n *needs, routes *http.ServeMux) *describer {
	d := &describer{
		method: n.index(traffic.Method), path: n.index(traffic.Path), host: n.index(traffic.Host),
		addr: n.index(traffic.Addr), status: n.index(traffic.Status), size: n.index(traffic.Size), routes: routes,
	}
	for i, f := range n.fields {
		if name, found := f.Header(); found {
			d.headers = append(d.headers, headerAt{name, i})
		}
		if name, found := f.AnswerHeader(); found {
			d.answers = append(d.answers, headerAt{name, i})
		}
	}
	for _, text := range n.proxies {
		if network, err := netip.ParsePrefix(text); err == nil {
			d.proxies = append(d.proxies, network)
		} else if addr, err := netip.ParseAddr(text); err == nil {
			d.proxies = append(d.proxies, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return d
}

// value returns the value at an index, or "" if it is not needed or not known.
func (d *describer) value(index int) string {
	if index < 0 || d.values[index] == "-" {
		return ""
	}
	return d.values[index]
}

// describe returns the request of e. It returns nil if package net/http would not serve it: policies never
// see such a request.
func (d *describer) describe(e *traffic.Event) *http.Request {
	d.values = e.Values(d.values[:0])
	r := &http.Request{Method: http.MethodGet, Host: d.value(d.host), URL: &url.URL{Path: "/"}}
	// A line without a method or a path, in a log that has them, is what a probe has sent.
	if method := d.values[d.method]; method != "" {
		if r.Method = method; !isToken(method) {
			return nil
		}
	}
	if path := d.values[d.path]; path != "" && !setTarget(r, path) {
		return nil
	}
	if r.Header = headerOf(d, d.headers); d.addr >= 0 {
		r = d.connect(r)
	}
	if d.routes != nil {
		// A mux answers some requests itself: by a redirect to a clean path, or 404, or 405.
		if h, pattern := d.routes.Handler(r); h == (route{}) {
			r.Pattern = pattern
		}
	}
	return r
}

// setTarget sets the URL of r as net/http does, or reports false if it would refuse or answer r itself.
func setTarget(r *http.Request, path string) (ok bool) {
	if r.Method == http.MethodConnect && !strings.HasPrefix(path, "/") {
		r.URL = &url.URL{Host: path}
		return path != ""
	}
	u, err := url.ParseRequestURI(path)
	if err != nil || path == "*" && r.Method == http.MethodOptions {
		return false
	}
	r.URL = u
	return true
}

// connect sets the address from which r came. nginx logs unix: for a Unix socket.
func (d *describer) connect(r *http.Request) *http.Request {
	addr := d.value(d.addr)
	if strings.HasPrefix(addr, "unix:") {
		r.RemoteAddr = "@"
		socket := context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.UnixAddr{Net: "unix"}))
		return r.WithContext(socket)
	}
	if r.RemoteAddr = addr; len(d.proxies) > 0 {
		if a, err := netip.ParseAddr(addr); err == nil && slices.ContainsFunc(d.proxies, func(n netip.Prefix) bool { return n.Contains(a.Unmap()) }) {
			d.fromProxies++
		}
	}
	return r
}

// headerOf returns the headers that have a value.
func headerOf(d *describer, fields []headerAt) http.Header {
	h := http.Header{}
	for _, f := range fields {
		if v := d.value(f.index); v != "" {
			h[f.name] = strings.Split(v, "\n")
		}
	}
	return h
}

// response returns the response to the request.
//
// A response is uncertain if the log says that the client was gone: by the status 499 of nginx or the 460
// of a load balancer of AWS, or by no status.
func (d *describer) response() httplimit.Response {
	r := httplimit.Response{Status: http.StatusOK, Header: headerOf(d, d.answers)}
	if d.status >= 0 && d.values[d.status] != "" { // else the log has none
		r.Status, _ = strconv.Atoi(d.value(d.status)) // traffic refuses what is no number
	}
	if r.Status == clientClosed || r.Status == clientGone || r.Status < 100 {
		r.Status, r.Uncertain = 0, true
	}
	r.Bytes, _ = strconv.ParseInt(d.value(d.size), 10, 64)
	return r
}

// Statuses that say that the client was gone before the response.
const (
	clientClosed = 499 // nginx
	clientGone   = 460 // load balancers of AWS
)

// isToken reports whether net/http takes s for a method.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}
