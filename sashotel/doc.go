// Package sashotel exports what the limiters of packages httplimit, sash and sashredis do as metrics of
// OpenTelemetry, and traces the round trips of sashredis.
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
// the semantic conventions. All but time_in_queue are asynchronous. They have the attribute
// sash.rate_limiting.limiter, which is the name that New is given, and those in braces, in the
// same namespace.
//
//	sash.rate_limiting.requests{policy,limit,result}  counter, {request}: once for each policy
//	sash.rate_limiting.units{policy,limit,result,unit}  counter, {unit}: that requests cost, counted like requests
//	sash.rate_limiting.refunds{policy}                counter, {request}: given back after the answer
//	sash.rate_limiting.settlements{policy}            counter, {request}: changed to another cost after it
//	sash.rate_limiting.refunded_units{policy,unit}    counter, {unit}: given back by refunds and settlements
//	sash.rate_limiting.surcharged_units{policy,unit}  counter, {unit}: charged by settlements above the estimates
//	sash.rate_limiting.request.time_in_queue{policy,result}  histogram, s: of requests that had to wait
//	sash.rate_limiting.denied_clients{policy}         counter, {client}: denied for the first time in this process
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
//	sash.rate_limiting.policy_reloads{result}                   counter, {reload}: loaded or failed
//	sash.rate_limiting.policy_last_reload.successful            gauge, {success}: 1 if the last one has succeeded, or else 0
//	sash.rate_limiting.policy_last_reload.success_time          gauge, s: when the last that has succeeded did, since 1970
//
// The instruments of reloads have data once [Metrics.ObserveReload] was called.
//
// No event tells that a request begins to wait, or ends to hold units. So there is nothing like
// active_request_leases and queued_requests.
//
// Stores have no keys in this process, so under httplimit.WithStore the instruments from keys on
// have no data. Without a store, store_errors has none.
//
// # The store of package sashredis
//
// [RegisterStore] has the figures of a sashredis.Limiter, which may be the one of httplimit.WithStore, and
// [RoundTripHook] traces its round trips, and measures their times:
//
//	sash.rate_limiting.store.decisions{by}            counter, {call}: by store, mirror, lease or fallback
//	sash.rate_limiting.store.round_trips              counter, {round_trip}: scripts that were sent to the store
//	sash.rate_limiting.store.round_trip_failures      counter, {round_trip}: those that the store did not answer
//	sash.rate_limiting.store.round_trip.duration      histogram, s: how long all of them took
//	sash.rate_limiting.store.combined_calls           counter, {call}: that went to the store with an earlier one
//	sash.rate_limiting.store.breaker_open             up-down counter, {breaker}: 1 while calls do not wait for the store
//	sash.rate_limiting.store.breaker_openings         counter, {opening}: how often that has begun
//	sash.rate_limiting.store.leased_units             counter, {unit}: leased from the store
//	sash.rate_limiting.store.returned_units           counter, {unit}: leased, and given back or flowed back
//	sash.rate_limiting.store.invalid_calls            counter, {call}: wrong limits of WithLimitsFor or the call
//
// The bounds of the histogram are 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250 and 500 ms, and 1 s. This package
// does not require module sashredis.
//
// # Units
//
// Policies with a Cost or a Settle have metrics in units, which the attribute unit names by the policy's Unit.
// Elsewhere each request costs one unit, so requests tell. For each policy, summed over its limits,
//
//	charged = admitted - refunded + surcharged
//
// is what its requests were charged in the end, as far as they are answered. These are units with the result
// admitted, refunded_units and surcharged_units.
//
// A few cases:
//   - A request counts with 2^40 units at most, before and after the answer. So a Content-Length that a client
//     has made up does not hide the others. A count starts again at 0 after 2^63 units.
//   - A settlement that the store may not have made counts as made, and in store_errors.
//   - What sash.WithChargeDenied charges is not among the units that are admitted.
//   - The units that a limit by sash.AtOnce holds come back without being given back.
//   - Of a sash.Limiter, Commit and Cancel of a reservation are not observed. So its units are the ones
//     that were reserved.
//
// # Time in queues
//
// Policies with a Queue have a histogram of how long their requests have waited. Only requests that had to wait
// are in it, by their result: admitted, denied, withheld or abandoned. So its count tells how many those were,
// out of requests. A request waits in all its queues at once, and counts under each policy
// with a Queue for the whole time. The bounds are
// 1, 5, 10, 25, 50, 100, 250 and 500 ms, and 1, 2.5, 5, 10, 30 and 60 s. A view of the
// SDK can give it others, or make it an exponential histogram.
//
// OpenTelemetry has no histogram that is read when it is collected. So a request that had to wait records its
// time at once, which takes a microsecond and allocates. No other request does.
//
// # Denied clients
//
// A client counts in denied_clients when a policy denies it for the first time since the process has
// started, also if the policy is a shadow. It needs httplimit.WithEventFingerprints(httplimit.Denied), and
// has data from the first such denial on. It is an estimate: the standard error is 0.4 % of 100,000 clients and
// 2.3 % of 500,000, and at about 700,000 the count stays. A policy keeps 8 kB for it, and nothing of the clients.
//
// # Attributes
//
// The policy is the Name of the httplimit.Policy. A sash.Limiter has none.
//
// The limit is the text of the limit that decided, such as "300/1m0s". For an admitted request
// of several limits, that is the one with the least left. Plans with equal limits share a text. A limit of
// a key's own, by WithLimitsFor or SetLimits, is "other" unless the policy or a plan has it, too. A new limit of Reconfigure is "other" until the next
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
// To count a request allocates nothing. It costs a fraction of the request, for each of its policies. The
// decision itself writes nothing for it. The other figures are read when they are collected.
package sashotel
