package grpctest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/seed-30da4c49/sash/grpclimit"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// A file names codes as gRPC does. If a policy names one code, a call with that code stays charged, and a call
// with any other code gets its charge back. Both packages do so.
func TestPolicyFile_ChargesByCodes(t *testing.T) {
	servers := map[string]func(*testing.T, *httplimit.Limiter, codes.Code) (target string){
		"grpclimit": serveGRPC,
		"connectlimit": func(t *testing.T, l *httplimit.Limiter, answer codes.Code) string {
			e := &echo{say: func(ctx context.Context, request *connect.Request[value]) (*connect.Response[value], error) {
				if answer == codes.OK {
					return says(ctx, request)
				}
				return nil, connect.NewError(connect.Code(answer), errors.New("asked for"))
			}}
			return strings.TrimPrefix(serve(t, e, limited(l)).URL, "http://")
		},
	}
	for name, serve := range servers {
		t.Run(name, func(t *testing.T) {
			for answer := codes.OK; answer <= codes.Unauthenticated; answer++ {
				for _, charged := range []codes.Code{answer, (answer + 1) % (codes.Unauthenticated + 1)} {
					l := limiterOfFile(t, code.Code_name[int32(charged)])
					conn, err := grpc.NewClient("passthrough:///"+serve(t, l, answer), grpc.WithTransportCredentials(insecure.NewCredentials()))
					require.NoError(t, err)
					require.Equal(t, answer, status.Code(conn.Invoke(t.Context(), sayProcedure, message(10), new(value))))
					require.NoError(t, conn.Close())
					want := int64(2)
					if answer == charged {
						want = 1
					}
					require.Equal(t, want, left(t, l, "all"), "%v is charged, and the answer is %v", charged, answer)
				}
			}
		})
	}
}

// limiterOfFile returns a limiter that admits two calls an hour. A call stays charged if its code is code.
func limiterOfFile(t *testing.T, code string) *httplimit.Limiter {
	file := fmt.Sprintf("policies: [{name: all, pattern: %s, limits: 2/h, key: everyone, charge: %s}]", sayProcedure, code)
	policies, err := policyfile.Parse("limits.yaml", []byte(file))
	require.NoError(t, err)
	l, _ := limiter(t, policies[0])
	return l
}

// serveGRPC serves calls that are all answered by a code, with grpc-go.
func serveGRPC(t *testing.T, l *httplimit.Limiter, answer codes.Code) (target string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(l)), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		m := new(value)
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
		if answer != codes.OK {
			return status.Error(answer, "asked for")
		}
		return stream.SendMsg(m)
	}))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}
