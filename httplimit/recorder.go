package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync/atomic"
)

// A recorder is a ResponseWriter that records the status that the client was sent.
//
// Handlers receive a wrapper of it with the same methods of net/http as the writer below, and no others,
// since handlers test for them. http.ResponseController finds all other methods by Unwrap.
type recorder struct {
	http.ResponseWriter
	ctx         context.Context // of the request; done once the client has hung up
	status      int             // that the client was sent; 0: none
	bytes       int64           // of the body that were written
	writeFailed bool
	returned    bool         // whether the handler has returned, and has not panicked
	body        *requestBody // nil: the request has none
}

// serve calls next with a copy of r that has the context ctx, and whose body is watched: net/http
// inspects the body of its own request. Afterwards, the other fields are copied back: the server deletes
// the files of a form, and handlers around this one may read the Pattern. If ctx is not new to r, and r has
// no body, next is called with r itself.
func (rec *recorder) serve(next http.Handler, r *http.Request, ctx context.Context, isNew bool) {
	own := r.Body
	hasBody := own != nil && own != http.NoBody
	if !hasBody && !isNew {
		next.ServeHTTP(rec.wrapped(), r)
		return
	}
	watched := r.WithContext(ctx) // a copy, with a body of its own
	if hasBody {
		rec.body = &requestBody{ReadCloser: own}
		watched.Body = rec.body
	}
	defer func() {
		*r = *watched
		r.Body = own
	}()
	next.ServeHTTP(rec.wrapped(), watched)
}

// A requestBody records whether the client has sent its body properly. It is safe for concurrent use: a
// handler may return while another goroutine reads, as in a ReverseProxy whose upstream answers early.
type requestBody struct {
	io.ReadCloser
	failed atomic.Bool // whether a read has failed before the body was closed
	closed atomic.Bool
}

func (b *requestBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	// The server itself closes a body after an answer that did not wait for it. A read then fails with
	// ErrBodyReadAfterClose, though b was not closed.
	if err != nil && err != io.EOF && !b.closed.Load() && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed.Store(true)
	}
	return n, err
}

func (b *requestBody) Close() error {
	// Before the close: a concurrent read that fails because of it must find closed set.
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// Unwrap is for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// response returns what the client was sent, once the handler has ended.
func (rec *recorder) response(r *http.Request) Response {
	t := reflect.TypeOf(rec.ResponseWriter)
	if rec.returned && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "net/http" {
		rec.noteStatus(http.StatusOK) // which net/http sends if the handler has written none
	}
	sent := rec.bytes
	if r.Method == http.MethodHead || rec.status == http.StatusNoContent || rec.status == http.StatusNotModified {
		sent = 0 // net/http drops what is written; a writer in between may not say so
	}
	// Nothing has gone wrong if the handler has returned, each write succeeded, the client is connected,
	// and it has sent its body properly.
	received := rec.body == nil || !rec.body.failed.Load()
	intact, seen := rec.returned && !rec.writeFailed && rec.ctx.Err() == nil && received, rec.status != 0
	return Response{
		Status:    rec.status,
		Bytes:     sent,
		Header:    rec.Header(),
		Uncertain: !intact || !seen,
		unseen:    intact && !seen,
	}
}

// noteStatus records the first final status. Statuses 1xx come before it, except for 101. It ignores a
// status that is written after the client has hung up, who may have caused it: a proxy then writes 502.
func (rec *recorder) noteStatus(status int) {
	final := status >= 200 || status == http.StatusSwitchingProtocols
	if rec.status == 0 && final && rec.ctx.Err() == nil {
		rec.status = status
	}
}

// noteError records that a write has failed, unless it was refused because the response has no body, or
// the writer does not support it: the response is complete without it.
func (rec *recorder) noteError(err error) {
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) && !errors.Is(err, errors.ErrUnsupported) {
		rec.writeFailed = true
	}
}

func (rec *recorder) WriteHeader(status int) {
	rec.noteStatus(status)
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(b []byte) (n int, err error) {
	rec.noteStatus(http.StatusOK)
	n, err = rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	rec.noteError(err)
	return n, err
}

func (rec *recorder) WriteString(s string) (n int, err error) {
	rec.noteStatus(http.StatusOK)
	n, err = io.WriteString(rec.ResponseWriter, s)
	rec.bytes += int64(n)
	rec.noteError(err)
	return n, err
}

// FlushError is called by http.ResponseController, which would otherwise flush the writer below.
func (rec *recorder) FlushError() error {
	connected := rec.ctx.Err() == nil // before the flush: the client may hang up because of it
	err := http.NewResponseController(rec.ResponseWriter).Flush()
	if rec.status == 0 && connected && !errors.Is(err, errors.ErrUnsupported) {
		rec.status = http.StatusOK
	}
	rec.noteError(err)
	return err
}

// closeNotifier is http.CloseNotifier, which is deprecated. Handlers still test for it.
type closeNotifier interface{ CloseNotify() <-chan bool }

// wrapped returns rec with the methods of the writer below. Each type is a pointer: it does not allocate.
func (rec *recorder) wrapped() http.ResponseWriter {
	_, flushes := rec.ResponseWriter.(http.Flusher)
	_, hijacks := rec.ResponseWriter.(http.Hijacker)
	_, reads := rec.ResponseWriter.(io.ReaderFrom)
	_, pushes := rec.ResponseWriter.(http.Pusher)
	_, notifies := rec.ResponseWriter.(closeNotifier)
	flushing := flushingRecorder{rec}
	hijacking := hijackingRecorder{flushing}
	switch {
	case flushes && hijacks && reads && notifies:
		return notifyingHTTP1Recorder{http1Recorder{hijacking}}
	case flushes && hijacks && reads:
		return http1Recorder{hijacking}
	case flushes && hijacks && notifies:
		return notifyingHijackingRecorder{hijacking}
	case flushes && hijacks:
		return hijacking
	case flushes && pushes && notifies:
		return notifyingHTTP2Recorder{http2Recorder{flushing}}
	case flushes && pushes:
		return http2Recorder{flushing}
	case flushes && notifies:
		return notifyingFlushingRecorder{flushing}
	case flushes:
		return flushing
	case notifies:
		return notifyingRecorder{rec}
	}
	return rec
}

// The types of recorders. Each name tells which methods the type adds.
type flushingRecorder struct{ *recorder }

func (rec flushingRecorder) Flush() { _ = rec.FlushError() }

type hijackingRecorder struct{ flushingRecorder }

func (rec hijackingRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := rec.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		rec.noteStatus(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

type http1Recorder struct{ hijackingRecorder }

func (rec http1Recorder) ReadFrom(r io.Reader) (int64, error) {
	connected := rec.ctx.Err() == nil // before the copy: the client may hang up because of it
	n, err := rec.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
	rec.bytes += n
	if n > 0 && rec.status == 0 && connected { // a copy of nothing leaves the status open
		rec.status = http.StatusOK
	}
	rec.noteError(err)
	return n, err
}

type http2Recorder struct{ flushingRecorder }

func (rec http2Recorder) Push(target string, options *http.PushOptions) error {
	return rec.ResponseWriter.(http.Pusher).Push(target, options)
}

// The same recorders for writers that have CloseNotify.
type (
	notifyingRecorder          struct{ *recorder }
	notifyingFlushingRecorder  struct{ flushingRecorder }
	notifyingHijackingRecorder struct{ hijackingRecorder }
	notifyingHTTP1Recorder     struct{ http1Recorder }
	notifyingHTTP2Recorder     struct{ http2Recorder }
)

func (rec *recorder) closeNotify() <-chan bool {
	return rec.ResponseWriter.(closeNotifier).CloseNotify()
}

func (rec notifyingRecorder) CloseNotify() <-chan bool          { return rec.closeNotify() }
func (rec notifyingFlushingRecorder) CloseNotify() <-chan bool  { return rec.closeNotify() }
func (rec notifyingHijackingRecorder) CloseNotify() <-chan bool { return rec.closeNotify() }
func (rec notifyingHTTP1Recorder) CloseNotify() <-chan bool     { return rec.closeNotify() }
func (rec notifyingHTTP2Recorder) CloseNotify() <-chan bool     { return rec.closeNotify() }
