package fiberlimit

import (
	"net/http"

	"github.com/gofiber/fiber/v3"
)

// setHeader adds the headers of a decision to c.
func setHeader(c fiber.Ctx, h http.Header) {
	to := &c.Response().Header
	for name, lines := range h {
		switch name {
		case "Ratelimit", "Ratelimit-Policy": // lists, to which another limiter may have added
		default:
			to.Del(name)
		}
		for _, line := range lines {
			to.Add(name, line)
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
	to := w.c.Response()
	for name := range headerOf(w.c) {
		to.Header.Del(name)
	}
	for name, lines := range w.header {
		for _, line := range lines {
			to.Header.Add(name, line)
		}
	}
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
