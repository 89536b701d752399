// Package sashotel exports what the limiters of packages httplimit and sash do as metrics of
// OpenTelemetry.
//
//	metrics := sashotel.New("api")
//	limiter := httplimit.Must(httplimit.New(all, login, httplimit.WithObserver(metrics.Observe)))
//	if err := metrics.Register(otel.GetMeterProvider(), limiter); err != nil {
//		log.Fatal(err)
//	}
//
// # Instruments
//
// Their names and attributes have the shape of aspnetcore.rate_limiting.requests and the like in
// the semantic conventions. All are asynchronous. They have the attribute
// sash.rate_limiting.limiter, which is the name that New is given, and those in braces, in the
// same namespace.
//
//	sash.rate_limiting.requests{policy,limit,result}  counter, {request}: once for each policy
//	sash.rate_limiting.refunds{policy}                counter, {request}: given back after the answer
//	sash.rate_limiting.settlements{policy}            counter, {request}: changed to another cost after it
//	sash.rate_limiting.store_errors{policy}           counter, {error}: a store did not decide
//	sash.rate_limiting.near_limit{policy,limit}       counter, {request}: left less of the limit than the policy's Near
//	sash.rate_limiting.full_queues{policy}            counter, {request}: denied for lack of room in a Queue
//	sash.rate_limiting.unseen_responses{policy}       counter, {request}: charges that stayed, as the handler showed no response
//	sash.rate_limiting.limit.units{policy,limit}      gauge, {unit}: Count of each limit in force
//	sash.rate_limiting.limit.window{policy,limit}     gauge, s: Window of each limit in force
//	sash.rate_limiting.limit.burst{policy,limit}      gauge, {unit}: Burst of each token bucket
//	sash.rate_limiting.keys                           up-down counter, {key}: tracked
//	sash.rate_limiting.waiting_calls                  up-down counter, {call}: of Wait and its like
//	sash.rate_limiting.evicted_keys                   counter, {key}: idle ones
//	sash.rate_limiting.displaced_keys                 counter, {key}: made room under WithMaxKeys
//	sash.rate_limiting.refused_calls                  counter, {call}: denied for lack of room
//	sash.rate_limiting.shared_calls                   counter, {call}: on a quota that keys share
//	sash.rate_limiting.invalid_calls                  counter, {call}: wrong limits of WithLimitsFor
//	sash.rate_limiting.sweeps                         counter, {sweep}: for idle keys
//
// A request holds no lease of a limit while it runs, and does not queue. So there is nothing
// like active_request_leases and queued_requests.
//
// Stores have no keys in this process, so under httplimit.WithStore the instruments from keys on
// have no data. Without a store, store_errors has none.
//
// # Attributes
//
// The policy is the Name of the httplimit.Policy. A sash.Limiter has none.
//
// The limit is the text of the limit that decided, such as "300/1m0s". For an admitted request
// of several limits, that is the one with the least left. All limits of keys' own, by
// WithLimitsFor and SetLimits, are "other". A new limit of Reconfigure is "other" until the next
// collection. Without a decision, there is no limit.
//
// The result is one of
//   - admitted: and charged.
//   - denied: by this policy, and the client was told so.
//   - shadow_denied: by this policy, which is a shadow, so the request went on.
//   - withheld: admitted by this policy and denied by another one.
//   - abandoned: denied by this policy, and the client has gone while the request waited.
//   - unidentified: the identity of the client could not be told.
//   - failed: a function of the policy panicked.
//
// So each request is counted once for each of its policies. The number of sets of attributes
// depends on policies and their limits only, whatever clients send.
//
// # Cost
//
// To count a request costs some 35 ns for each of its policies, and allocates nothing. The
// decision itself writes nothing for it. The other figures are read when they are collected.
package sashotel
