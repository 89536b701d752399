package httplimit

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// A Response is what [Charges.Settle] must know of an answer, and what [Policy].Settle is given.
type Response struct {
	// Status is the status that the client was sent; 0 if none. The status of a hijacked connection is
	// 101. Transports other than HTTP have codes of their own.
	Status int
	// Bytes is the number of bytes of the body that were written for the client. It does not include
	// headers, and is 0 for a response without a body, such as one to HEAD or of status 204. What a
	// handler writes to a hijacked connection is not known.
	Bytes int64
	// Header is the header of the response, with trailers. It may be nil.
	Header http.Header
	// Uncertain reports whether it is not certain that the client was sent all this, or whether the
	// client has caused it by hanging up; see [Policy].Charge.
	Uncertain bool
	unseen    bool // it is Uncertain only since the handler has shown no response

	// Request is the request, and Estimate what it was charged when it arrived. [Charges.Settle] sets
	// both.
	Request  *http.Request
	Estimate int64
}

// SettleEstimate is a [Policy].Settle that leaves the estimate. It lets the handler change the charge, by
// [ChargeOf], and nothing else.
func SettleEstimate() func(*Response) int64 {
	return func(r *Response) int64 { return r.Estimate }
}

// SettleBytes is a [Policy].Settle by which a request costs the bytes of its response's body. The Unit of
// such a policy is "content-bytes".
func SettleBytes() func(*Response) int64 {
	return func(r *Response) int64 { return r.Bytes }
}

// SettleHeader is a [Policy].Settle by which a request costs what a header of its response says, in
// digits. It may be a trailer, also one that is announced by [http.TrailerPrefix]. Without the header, or
// if it is no number from 0 on, the estimate stays. A number of more than 63 bits counts as the greatest.
// The client is sent the header, too, unless a handler around the middleware deletes it; to keep a cost
// to yourself, see [ChargeOf]. SettleHeader panics if name is empty.
func SettleHeader(name string) func(*Response) int64 {
	check(name != "", "SettleHeader: the name must not be empty")
	trailer := http.TrailerPrefix + http.CanonicalHeaderKey(name)
	return func(r *Response) int64 {
		text := cmp.Or(r.Header.Get(name), r.Header.Get(trailer))
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || n < 0 {
			return r.Estimate
		}
		return n
	}
}
