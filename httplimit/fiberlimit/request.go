package fiberlimit

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
)

// newRequest returns the request of c as policies see it. It does not share memory with c.
func newRequest(c fiber.Ctx) *http.Request {
	request := c.Request()
	r := &http.Request{
		Method:        c.Method(),
		URL:           newURL(strings.Clone(c.Path()), string(request.URI().QueryString())),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        make(http.Header, 8),
		Body:          http.NoBody,
		ContentLength: int64(request.Header.ContentLength()),
		Host:          strings.Clone(c.Host()),
		RemoteAddr:    c.RequestCtx().RemoteAddr().String(),
		RequestURI:    strings.Clone(c.OriginalURL()),
		TLS:           c.RequestCtx().TLSConnectionState(),
	}
	if r.ContentLength < -1 { // -1 is an unknown length, and less is none
		r.ContentLength = 0
	}
	var text texts
	text.Grow(len(request.Header.RawHeaders()))
	for name, value := range request.Header.All() {
		key := textproto.CanonicalMIMEHeaderKey(text.copy(name)) // the app may have it as it was sent
		r.Header[key] = append(r.Header[key], text.copy(value))
	}
	delete(r.Header, "Host") // as net/http does
	for _, name := range c.Route().Params {
		r.SetPathValue(name, strings.Clone(c.Params(name)))
	}
	return r.WithContext(adapter.Lend(contextOf(c), c))
}

// newURL returns the URL of a path, which may have escapes. The path is the one by which fiber
// chooses a route, so nothing but its escapes is parsed.
func newURL(path, query string) *url.URL {
	u := &url.URL{Path: path, RawQuery: query}
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		u.Path, u.RawPath = plain, path
	}
	return u
}

// contextOf returns the context of c's request. It tells the policies of a Unix socket, as the
// server of net/http does.
func contextOf(c fiber.Ctx) context.Context {
	ctx, local := c.Context(), c.RequestCtx().LocalAddr()
	if local.Network() != "unix" {
		return ctx
	}
	return context.WithValue(ctx, http.LocalAddrContextKey, local)
}

// texts holds copies of several texts in one piece of memory, if it has grown to their size.
type texts struct{ strings.Builder }

// copy returns a copy of b.
func (t *texts) copy(b []byte) string {
	start := t.Len()
	t.Write(b)
	return t.String()[start:]
}
