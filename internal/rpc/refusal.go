package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// Codes of gRPC, which Connect shares.
const (
	OK                uint32 = 0
	Canceled          uint32 = 1
	Unknown           uint32 = 2
	InvalidArgument   uint32 = 3
	DeadlineExceeded  uint32 = 4
	ResourceExhausted uint32 = 8
	Internal          uint32 = 13
	Unavailable       uint32 = 14
)

// Pushback is the trailer in which a server says after how many milliseconds to retry. If it
// is negative, clients do not retry.
const Pushback = "Grpc-Retry-Pushback-Ms"

// A Refusal is the answer to a call or a message that is not admitted. It contains nothing
// about the client.
type Refusal struct {
	Code     uint32
	Message  string
	Details  []proto.Message
	Header   http.Header // what Decide has set
	Pushback string      // the value of that trailer; "" means none
}

// newRefusal returns the answer to a verdict, or nil if it admits. ctx is the context of the request,
// and h the headers that Decide has set.
func newRefusal(ctx context.Context, v *httplimit.Verdict, h http.Header) *Refusal {
	switch v.Outcome {
	case httplimit.Admitted:
		return nil
	case httplimit.Denied:
		return denied(ctx, &v.Denial, h)
	case httplimit.Unidentified:
		return &Refusal{Code: InvalidArgument, Message: "the call does not tell who is making it", Header: h}
	case httplimit.Failed:
		return &Refusal{Code: Internal, Message: "internal error", Header: h}
	case httplimit.Abandoned:
		return &Refusal{Code: contextCode(ctx.Err()), Message: "the call has ended while it waited for its turn", Header: h}
	default:
		panic("grpclimit: no verdict has the outcome " + strconv.Quote(v.Outcome.String()))
	}
}

// denied returns the answer to a denial: how long to wait, and the names of the quotas. A client
// whose deadline comes before the end of that time is told not to retry: otherwise it would wait
// until its deadline for nothing, and lose the answer.
func denied(ctx context.Context, d *httplimit.Denial, h http.Header) *Refusal {
	if d.Err != nil { // another server may answer at once
		return &Refusal{Code: Unavailable, Message: "the server cannot decide the call at present", Header: h}
	}
	r := &Refusal{Code: ResourceExhausted, Header: h, Pushback: pushback(d.RetryAfter)}
	// The pushback is rounded up, so a millisecond before the deadline is too late as well.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline)-time.Millisecond <= d.RetryAfter {
		r.Pushback = pushback(sash.Never)
	}
	quotas := make([]*errdetails.QuotaFailure_Violation, len(d.Violated))
	for i, name := range d.Violated {
		quotas[i] = &errdetails.QuotaFailure_Violation{QuotaId: name, Description: fmt.Sprintf("quota %q is used up", name)}
	}
	names := strconv.Quote(strings.Join(d.Violated, ", "))
	if d.RetryAfter == sash.Never {
		r.Message = "the call costs more than is ever admitted by quota " + names
	} else {
		r.Message = fmt.Sprintf("quota used up: %s; admitted again in %v", names, d.RetryAfter)
		r.Details = append(r.Details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	}
	r.Details = append(r.Details, &errdetails.QuotaFailure{Violations: quotas})
	return r
}

// pushback returns d in milliseconds, rounded up. It returns -1, do not retry, for a time that
// does not fit: the field has 32 bits, so 24 days.
func pushback(d time.Duration) string {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	if ms > math.MaxInt32 {
		return "-1"
	}
	return strconv.FormatInt(ms, 10)
}

// contextCode returns the code of a call whose context has ended for that reason.
func contextCode(err error) uint32 {
	if errors.Is(err, context.DeadlineExceeded) {
		return DeadlineExceeded
	}
	return Canceled
}
