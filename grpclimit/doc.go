// Package grpclimit limits calls of gRPC: at servers, by the policies of package httplimit, and
// at clients, which wait for their turn.
//
//	limiter := httplimit.Must(httplimit.New(
//		httplimit.Policy{
//			Name:   "all",
//			Limits: []sash.Limit{sash.PerMinute(300)},
//			Key:    httplimit.ByAddress(),
//		},
//		httplimit.Policy{
//			Name:    "login",
//			Pattern: "/accounts.Accounts/Login",
//			Limits:  []sash.Limit{sash.PerHour(5)},
//			Key:     httplimit.ByAddress(),
//			Charge:  func(code int) bool { return codes.Code(code) == codes.Unauthenticated },
//		},
//	))
//	defer limiter.Close()
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(limiter)),
//		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(limiter)))
//
// For clients, see [UnaryClientInterceptor]. For Connect, see package connectlimit.
//
// # Calls as requests
//
// Policies decide a call as if it were a request of HTTP, with
//
//   - the method POST, and the path "/package.Service/Method". So the Pattern "/package.Service/"
//     is for all methods of a service. Without the first slash, it would name a host, and match no usual call.
//   - the host that the client has named as its authority.
//   - the metadata as its header, with canonical names: X-Forwarded-For, X-Api-Key. Metadata
//     whose name ends in -bin is there in bytes.
//   - the address of the peer. All options of [httplimit.ByAddress] work as they do with HTTP. All
//     peers without an address, as over bufconn in tests, are one client.
//   - TLS, if the connection has it, and the context of the call. [MessageOf] returns the message
//     of a unary call.
//
// Health checks and reflection are calls, too, unless a policy skips them:
//
//	Skip: func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/grpc.health.v1.Health/") },
//
// Identities, costs, shadows, stores and observers work as in httplimit. A transport within the
// process may have no peer: then ByAddress cannot tell the identity.
//
// # Refused calls
//
// A call that is denied is answered RESOURCE_EXHAUSTED, with the details
//
//   - RetryInfo: the time to wait, exact to the nanosecond. A client that waits for that time is
//     admitted if no other call is charged before; a nanosecond earlier, it is denied. It is
//     missing if no wait would do.
//   - QuotaFailure: the names of the quotas, in quota_id. They have no subject, since an answer
//     tells nothing about the client.
//
// and the metadata ratelimit, ratelimit-policy, retry-after in seconds, and
// grpc-retry-pushback-ms, both rounded up. By the last one, clients with a retry policy for
// RESOURCE_EXHAUSTED retry at that time. It is -1, do not retry, if no wait would do, or one over
// 24 days. The metadata is in the trailer, which of such an answer is all there is: grpc-go
// retries no call that was sent a header.
//
// A call that would have waited in a queue, but for Close of the limiter, is answered UNAVAILABLE.
// So is a call that a store denies since it cannot decide. Both answers have retry-after, unless no wait
// would do, and neither has details or grpc-retry-pushback-ms.
// Close the limiter before a server that stops gracefully: it would wait for those that wait.
//
// Other calls that are refused have no details. A call whose identity cannot be told is answered
// INVALID_ARGUMENT, and not UNAUTHENTICATED, by which clients would get new credentials. If a
// function of a policy panics, it is INTERNAL. If the context of a call ends while it waits in a
// queue, it is CANCELLED or DEADLINE_EXCEEDED.
//
// An admitted call is sent ratelimit and ratelimit-policy in its header. They are in its trailer
// if it fails before anything is sent, or if the handler has sent the header by grpc.SendHeader.
//
// # Charges
//
// A call is charged when it begins. When its handler has returned, the policies that may change
// a charge are told of the answer, by their functions Charge, ChargeUncertain and Settle:
//
//   - The status is the code of gRPC as a number, from 0 for OK to 16.
//   - Bytes are the sizes of the messages that the handler has sent, in binary form, before
//     compression; see [MessageSize].
//   - Header is nil, or the metadata that the handler has set; see [RecordMetadata].
//
// An answer of a unary call that grpc-go then cannot send, since it is too large, say, counts as
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
//     it, is gone, or its deadline is over. The status is then CANCELLED or DEADLINE_EXCEEDED; a
//     client that sets a deadline may cause either.
//   - the handler panics. The status is UNKNOWN, and the panic goes on.
//   - a stream could not send or receive a message, other than that it has ended or was refused:
//     one that is too large, say. grpc-go then ends its context, so the status is CANCELLED.
//
// # Messages of streams
//
// A stream is one call, however many messages it has. [LimitReceived] and [LimitSent] decide its
// messages, by policies of their own. When a message is denied, the context of the handler ends, and
// further messages fail in the same way. The stream ends when the handler returns: it is then
// answered as a denied call is, whatever the handler returns, but for ratelimit, ratelimit-policy
// and retry-after. Until then the client is told nothing. A handler that waits in RecvMsg while
// another goroutine of it is refused a message waits on, until the client sends one or ends its
// side. So receive in a goroutine of its own, and return when the context ends.
//
// Each message that a handler gets is charged, and each that it sends, even if sending fails
// then. So wherever a stream is cut, the charges are for the messages that the handler has
// got and sent until then. Messages that grpc-go has received and not handed on are not charged.
// The policies of messages are told of the answer OK, and of the bytes of the message, as soon as
// the message is sent or received.
//
// # Cost
//
// On top of its own work, a call with four keys of metadata and one policy by address takes
//
//   - 24 allocations and 2.8 kB if it is admitted
//   - 29 allocations and 3.3 kB if it is charged by its code
//   - 58 allocations and 4.0 kB if it is denied, its answer included
//   - 28 allocations and 2.4 kB of the client, if it makes the call at once
//
// go test -run '^$' -bench Unary -cpu 1 -benchtime 10000x ./grpclimit measures them, and the times.
//
// # Order of interceptors
//
// The interceptors see the code that the handler returns to them. An interceptor that changes
// errors into codes, or recovers from panics, belongs behind them: later in the chain. What an
// authenticating interceptor puts into the context, KeyFuncs find there if it stands before.
package grpclimit
