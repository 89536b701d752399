package rpc

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// Admit waits until the call may be made, and returns the key for Obey. If there is no error, release must be
// called once the call has ended. Further calls of it have no effect.
func Admit(ctx context.Context, t *httplimit.Transport, d *Description) (key string, release func(), err error) {
	return t.Reserve(d.outgoing(ctx, Size))
}

// NotSent returns the answer to a call that was not made because of err, an error of Admit.
func NotSent(err error) *Refusal {
	r := &Refusal{Code: Internal, Message: err.Error()}
	var turn *httplimit.TurnError
	switch {
	case errors.As(err, &turn) && !(turn.Held && turn.Err != nil), errors.Is(err, sash.ErrExceedsLimit):
		r.Code = ResourceExhausted
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		r.Code = contextCode(err)
	}
	if turn != nil {
		r.Details = []proto.Message{&errdetails.RetryInfo{RetryDelay: durationpb.New(turn.RetryAfter)}}
	}
	return r
}

// Obey holds key back for as long as the server has asked in the denial of a call: by the
// details of its status, and by its headers and trailers. Any other answer holds nothing back. Nor
// does a RateLimit: it may belong to a call that was admitted, and has failed by the same code
// later, such as one whose connection broke, or whose answer the client has found too large.
func Obey(t *httplimit.Transport, key string, code uint32, details []proto.Message, header http.Header) {
	// Other codes have RetryInfo for other reasons: under ABORTED it says when to repeat a
	// transaction.
	if code != ResourceExhausted && code != Unavailable {
		return
	}
	if d := RetryDelay(details); d > 0 {
		t.HoldBack(key, d)
	} else if d := pushbackOf(header); d > 0 {
		t.HoldBack(key, d)
	} else {
		t.Obey(key, &http.Response{StatusCode: http.StatusServiceUnavailable, Header: header}) // by Retry-After only
	}
}

// RetryDelay returns the time in the RetryInfo among details, or 0.
func RetryDelay(details []proto.Message) time.Duration {
	for _, detail := range details {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// pushbackOf returns the time in the pushback of a server, or 0.
func pushbackOf(header http.Header) time.Duration {
	values := header[Pushback]
	if len(values) != 1 {
		return 0
	}
	ms, err := strconv.ParseInt(values[0], 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
