package httplimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/seed-30da4c49/sash"
)

// A heldBody is the body of a response whose request holds units. It gives them back once it is closed, or
// nothing more can be read of it.
type heldBody struct {
	io.ReadCloser
	held sash.Reservation
}

// holdUntilRead lets the body of r, the answer to a request of that method, give back what is held, and reports
// whether it will: there may be no body, or nothing that is held.
func holdUntilRead(method string, r *http.Response, held sash.Reservation) bool {
	if held == (sash.Reservation{}) || !hasBody(method, r) {
		return false
	}
	body := &heldBody{r.Body, held}
	if w, ok := r.Body.(io.Writer); ok { // the connection of a protocol that the server has switched to
		r.Body = &heldConn{body, w}
	} else {
		r.Body = body
	}
	return true
}

// hasBody reports whether there is a body in r, the answer to a request of that method. A client need not close
// a body that is not there. Over HTTP/2, such a Body is not http.NoBody.
func hasBody(method string, r *http.Response) bool {
	switch {
	case r.Body == nil, r.Body == http.NoBody, method == http.MethodHead,
		r.StatusCode == http.StatusNoContent, r.StatusCode == http.StatusNotModified:
		return false
	}
	return r.ContentLength != 0 || r.ProtoMajor < 2 // a RoundTripper without a network may not tell the length
}

func (b *heldBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err != nil {
		b.held.Release()
	}
	return n, err
}

func (b *heldBody) Close() error {
	defer b.held.Release()
	return b.ReadCloser.Close()
}

// A heldConn is a heldBody that can be written to.
type heldConn struct {
	*heldBody
	io.Writer
}

// CloseWrite tells the other side that no more is written, if the connection can. A ReverseProxy asks for it.
func (c *heldConn) CloseWrite() error {
	if half, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("httplimit: CloseWrite: %w", errors.ErrUnsupported)
}
