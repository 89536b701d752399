package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// aCall returns the context that grpc-go gives a handler: with a peer, the metadata of a client
// of grpc-go, and a transport, which drops what is sent.
func aCall() context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{
		Addr:      net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:40000")),
		LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.2:443")),
	})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "api.example:443",
		"content-type", "application/grpc", "user-agent", "grpc-go/1.84.0", "x-api-key", "secret"))
	return grpc.NewContextWithServerTransportStream(ctx, noTransport{})
}

type noTransport struct{ grpc.ServerTransportStream }

func (noTransport) SetHeader(metadata.MD) error  { return nil }
func (noTransport) SetTrailer(metadata.MD) error { return nil }

// The interceptor and a handler that does nothing. What remains of a call is grpc-go's.
func BenchmarkUnaryServerInterceptor(b *testing.B) {
	plenty := sash.PerSecond(1 << 40)
	for _, c := range []struct {
		name   string
		limit  sash.Limit
		charge func(int) bool
		code   codes.Code
	}{
		{"admitted", plenty, nil, codes.OK},
		{"charged-by-code", plenty, func(code int) bool { return codes.Code(code) == codes.OK }, codes.OK},
		{"denied", sash.PerHour(1), nil, codes.ResourceExhausted},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := httplimit.Must(httplimit.New(httplimit.Policy{Name: "all", Limits: []sash.Limit{c.limit}, Key: httplimit.ByAddress(), Charge: c.charge}))
			defer l.Close()
			ctx, m, info := aCall(), message(b, 10), &grpc.UnaryServerInfo{FullMethod: sayMethod}
			handler := func(_ context.Context, m any) (any, error) { return m, nil }
			interceptor := UnaryServerInterceptor(l)
			_, err := interceptor(ctx, m, info, handler)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				_, err = interceptor(ctx, m, info, handler)
			}
			require.Equal(b, c.code, status.Code(err))
		})
	}
}

// The interceptor and a call that does nothing.
func BenchmarkUnaryClientInterceptor(b *testing.B) {
	l := sash.Must(sash.New(sash.PerSecond(1 << 40)))
	defer l.Close()
	interceptor := UnaryClientInterceptor(&httplimit.Transport{Limiter: l, Key: ByMethod()})
	ctx, m := metadata.NewOutgoingContext(context.Background(), metadata.Pairs("x-api-key", "secret")), message(b, 10)
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := interceptor(ctx, sayMethod, m, m, nil, invoke); err != nil {
			b.Fatal(err)
		}
	}
}
