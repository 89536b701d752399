package grpctest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/connectlimit"
	"github.com/seed-30da4c49/sash/httplimit"
)

// The whole handler of Connect without a connection. The interceptor costs the difference to
// "none".
func BenchmarkInterceptor(b *testing.B) {
	policy := func(b *testing.B, limit sash.Limit, charge func(int) bool) []connect.HandlerOption {
		l := httplimit.Must(httplimit.New(httplimit.Policy{Name: "all", Limits: []sash.Limit{limit}, Key: httplimit.ByAddress(), Charge: charge}))
		b.Cleanup(func() { l.Close() })
		return []connect.HandlerOption{connect.WithInterceptors(connectlimit.NewInterceptor(l))}
	}
	plenty := sash.PerSecond(1 << 40)
	body, err := proto.Marshal(message(10))
	require.NoError(b, err)
	for _, c := range []struct {
		name   string
		limit  sash.Limit // none if it is zero
		charge func(int) bool
		status int
	}{
		{"none", sash.Limit{}, nil, http.StatusOK},
		{"admitted", plenty, nil, http.StatusOK},
		{"charged-by-code", plenty, func(code int) bool { return code == 0 }, http.StatusOK},
		{"denied", sash.PerHour(1), nil, http.StatusTooManyRequests},
	} {
		b.Run(c.name, func(b *testing.B) {
			var options []connect.HandlerOption
			if c.limit != (sash.Limit{}) {
				options = policy(b, c.limit, c.charge) // a new one for each -count
			}
			handler := connect.NewUnaryHandler(sayProcedure, says, options...)
			call := func() int {
				r := httptest.NewRequest(http.MethodPost, sayProcedure, bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/proto")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w.Code
			}
			require.Equal(b, http.StatusOK, call())
			b.ReportAllocs()
			status := 0
			for b.Loop() {
				status = call()
			}
			require.Equal(b, c.status, status)
		})
	}
}

// The whole client of Connect without a connection. The interceptor costs the difference to
// "none".
func BenchmarkClientInterceptor(b *testing.B) {
	l := sash.Must(sash.New(sash.PerSecond(1 << 40)))
	b.Cleanup(func() { l.Close() })
	waits := connectlimit.NewClientInterceptor(&httplimit.Transport{Limiter: l, Key: connectlimit.ByMethod()})
	body, err := proto.Marshal(message(10))
	require.NoError(b, err)
	for name, options := range map[string][]connect.ClientOption{"none": nil, "admitted": {connect.WithInterceptors(waits)}} {
		b.Run(name, func(b *testing.B) {
			c := connect.NewClient[value, value](answers(body), "http://api.example"+sayProcedure, options...)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, err = c.CallUnary(ctx, connect.NewRequest(message(10)))
			}
			require.NoError(b, err)
		})
	}
}

// answers is a server that answers each call with the same message.
type answers []byte

func (a answers) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/proto"}},
		Body:       io.NopCloser(bytes.NewReader(a)),
		Request:    r,
	}, nil
}
