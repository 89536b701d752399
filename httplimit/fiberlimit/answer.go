package fiberlimit

import (
	"net/http"

	"github.com/gofiber/fiber/v3"
)

// setHeader sets the headers of a decision in c. All but the lists, to which another limiter may have added, have one
// line. Deleting it first would change the order of other lines: fasthttp fills the gap with the last of all.
func setHeader(c fiber.Ctx, h http.Header) {
	to := &c.Response().Header
	for name, lines := range h {
		switch name {
		case "Ratelimit", "Ratelimit-Policy":
			to.Add(name, lines[0])
		default:
			to.Set(name, lines[0])
		}
	}
}

// headerOf returns a copy of the headers of c's response.
func headerOf(c fiber.Ctx) http.Header {
	h := http.Header{}
	for name, value := range c.Response().Header.All() {
		h.Add(string(name), string(value))
	}
	return h
}

// replaceHeader replaces the headers of c's response by h. Lines of one name keep their order.
func replaceHeader(c fiber.Ctx, h http.Header) {
	to := &c.Response().Header
	var names []string // as the app has written them
	for name := range to.All() {
		names = append(names, string(name))
	}
	for _, name := range names {
		to.Del(name)
	}
	for name, lines := range h {
		for _, line := range lines {
			to.Add(name, line)
		}
	}
}

// A header is the header of a response of fiber, for the options.
type header struct{ c fiber.Ctx }

func (h header) Set(name, value string) { h.c.Response().Header.Set(name, value) }

// Del deletes the lines of a name. The others keep their order.
func (h header) Del(name string) {
	all := headerOf(h.c)
	if _, ok := all[name]; ok {
		delete(all, name)
		replaceHeader(h.c, all)
	}
}

// refuse sets the response of c to what write writes.
func refuse(c fiber.Ctx, write func(http.ResponseWriter)) {
	w := &answer{c: c, header: headerOf(c)}
	w.header.Del("Content-Type") // of another content
	write(w)
	w.WriteHeader(http.StatusOK) // unless there is a status
}

// An answer is an [http.ResponseWriter] for a response of fiber.
type answer struct {
	c       fiber.Ctx
	header  http.Header
	written bool
}

func (w *answer) Header() http.Header { return w.header }

// WriteHeader replaces the headers of the response, and its body by none yet.
func (w *answer) WriteHeader(status int) {
	if w.written || status < 200 {
		return
	}
	w.written = true
	replaceHeader(w.c, w.header)
	to := w.c.Response()
	to.ResetBody()
	to.SetStatusCode(status)
}

// Write appends to the body. Without a Content-Type, the first bytes tell it, as in net/http.
func (w *answer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	to := w.c.Response()
	if _, known := w.header["Content-Type"]; !known && len(to.Body()) == 0 {
		to.Header.SetContentType(http.DetectContentType(b))
	}
	to.AppendBody(b)
	return len(b), nil
}
