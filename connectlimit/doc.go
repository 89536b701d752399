// Package connectlimit limits calls of Connect, gRPC and gRPC-Web, as connectrpc.com/connect serves
// and makes them: at handlers, by the policies of package httplimit, and at clients, which wait
// for their turn. It is to Connect what package grpclimit is to grpc-go.
//
//	limiter := httplimit.Must(httplimit.New(
//		httplimit.Policy{
//			Name:    "login",
//			Pattern: "/accounts.v1.Accounts/Login",
//			Limits:  []sash.Limit{sash.PerHour(5)},
//			Key:     httplimit.ByAddress(),
//			Charge:  func(code int) bool { return connect.Code(code) == connect.CodeUnauthenticated },
//		},
//	))
//	defer limiter.Close()
//	mux.Handle(accountsv1connect.NewAccountsHandler(server,
//		connect.WithInterceptors(connectlimit.NewInterceptor(limiter))))
//
// For clients, see [NewClientInterceptor].
//
// The middleware of httplimit can stand around such handlers, too. But it answers denials as HTTP
// does, which clients of gRPC do not understand, and it sees status 200 wherever a call of gRPC
// has failed. The interceptor answers and charges by the codes of the three protocols.
//
// # Calls as requests
//
// Policies decide a call as if it were a request of HTTP, with
//
//   - the method POST, also if the client calls by GET, and the path "/package.Service/Method". So the
//     Pattern "/package.Service/" is for all methods of a service.
//   - the headers of the call, and the address of the peer. All options of [httplimit.ByAddress]
//     work as they do with HTTP.
//   - the context of the call. [MessageOf] returns the message of a unary call.
//
// Connect tells interceptors neither the Host nor the TLS of a call. So a Pattern with a host
// matches no call.
//
// # Refused calls
//
// A call that is denied is answered CodeResourceExhausted, with the details
//
//   - RetryInfo: the time to wait, exact to the nanosecond. A client that waits for that time is
//     admitted if no other call is charged before; a nanosecond earlier, it is denied. It is
//     missing if no wait would do.
//   - QuotaFailure: the names of the quotas, in quota_id. They have no subject, since an answer
//     tells nothing about the client.
//
// and the headers RateLimit, RateLimit-Policy and Retry-After, in seconds, rounded up, and the
// metadata Grpc-Retry-Pushback-Ms of the error, in milliseconds, rounded up. That is -1, do not
// retry, if no wait would do, or one over 24 days.
//
// A call that would have waited in a queue, but for Close of the limiter, is answered UNAVAILABLE.
// So is a call that a store denies since it cannot decide. Both answers have Retry-After, unless no wait
// would do, and neither has details or Grpc-Retry-Pushback-Ms.
// Close the limiter before a server that stops gracefully: it would wait for those that wait.
//
// Other calls that are refused have no details. A call whose identity cannot be told is answered
// CodeInvalidArgument. If a function of a policy panics, it is CodeInternal. If the context of a
// call ends while it waits in a queue, it is CodeCanceled or CodeDeadlineExceeded.
//
// An admitted call is sent RateLimit and RateLimit-Policy in its headers.
//
// # Charges
//
// A call is charged when it begins. When its handler has returned, the policies that may change
// a charge are told of the answer, by their functions Charge, ChargeUncertain and Settle:
//
//   - The status is the code as a number: 0 for success, else a connect.Code.
//   - Bytes are the sizes of the messages that the handler has sent, in the binary form of protobuf,
//     whatever the codec and the compression; see [MessageSize].
//   - Header is the headers and trailers that the handler has set.
//
// An answer of a unary call that Connect then cannot send, since it is too large, say, counts as
// sent.
//
// Handlers may declare the cost themselves, by httplimit.ChargeOf.
//
// A call that holds units, by a limit of sash.AtOnce, holds them until its handler has returned or panicked.
// So a stream holds them as long as it lasts, and the lease must outlast it. A message holds its units
// until it is sent or received.
//
// The answer is uncertain, and the charge stays unless ChargeUncertain gives it back, if
//
//   - the context of the call is done before the handler has returned: the client has cancelled
//     it, is gone, or its deadline is over. The status is then CodeCanceled or
//     CodeDeadlineExceeded; a client that sets a deadline may cause either.
//   - the handler panics. The status is CodeUnknown, and the panic goes on.
//   - a stream could not send or receive a message, other than that it has ended or was refused.
//     The status is the code of the handler's error.
//
// # Messages of streams
//
// A stream is one call, however many messages it has. [LimitReceived] and [LimitSent] decide its
// messages, by policies of their own. When a message is denied, the context of the handler ends, and
// further messages fail in the same way. The stream ends when the handler returns: it is then
// answered as a denied call is, whatever the handler returns, but for RateLimit, RateLimit-Policy
// and Retry-After. Until then the client is told nothing. A handler that waits in Receive while
// another goroutine of it is refused a message waits on, until the client sends one or ends its
// side. So receive in a goroutine of its own, and return when the context ends.
//
// Each message that a handler gets is charged, and each that it sends, even if sending fails
// then. The policies of messages are told of success, and of the bytes of the message, as soon as
// the message is sent or received.
//
// # Cost
//
// With one policy by address, a unary call takes
//
//   - 13 allocations and 1.6 kB more if it is admitted
//   - 24 allocations and 2.7 kB more if it is charged by its code
//   - 91 allocations and 5.6 kB more if it is denied, most of them for the answer
//   - 18 allocations and 1.3 kB more of the client, if it makes the call at once
//
// go test -run '^$' -bench Interceptor -cpu 1 -benchtime 10000x ./connectlimit/internal/grpctest measures
// them, and the times.
package connectlimit
