package httplimit

import (
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

// holdUntilRead lets the body of r give back what is held, and reports whether it will: there may be no body,
// or nothing that is held.
func holdUntilRead(r *http.Response, held sash.Reservation) bool {
	if held == (sash.Reservation{}) || r.Body == nil || r.Body == http.NoBody {
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
