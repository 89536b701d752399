// Package sashprometheus exports what the limiters of packages httplimit, sash and sashredis do as metrics
// of Prometheus.
//
//	metrics := sashprometheus.New("api")
//	limiter := httplimit.Must(httplimit.New(all, login, httplimit.WithObserver(metrics.Observe)))
//	if err := metrics.Register(prometheus.DefaultRegisterer, limiter); err != nil {
//		log.Fatal(err)
//	}
//	http.Handle("/metrics", promhttp.Handler())
//
// # Metrics
//
// All metrics have the label limiter. It is the name that New is given.
//
//	sash_decisions_total{policy,limit,result}   requests, once for each of their policies
//	sash_units_total{policy,limit,result,unit}  units that requests cost, counted like decisions
//	sash_refunds_total{policy}                  charges that were given back after the answer
//	sash_settlements_total{policy}              charges that were changed to another cost after the answer
//	sash_refunded_units_total{policy,unit}      units that were given back by refunds and settlements
//	sash_surcharged_units_total{policy,unit}    units that settlements charged above the estimates
//	sash_time_in_queue_seconds{policy,result}   histogram: how long requests that had to wait have waited
//	sash_denied_clients_total{policy}           clients that were denied for the first time in this process
//	sash_store_errors_total{policy}             decisions that a store did not make
//	sash_near_limit_total{policy,limit}         requests that left less of the limit than the policy's Near
//	sash_full_queues_total{policy}              requests that were denied for lack of room in a Queue
//	sash_unseen_responses_total{policy}         charges that stayed since the handler showed no response
//	sash_limit_units{policy,limit}              Count of each limit in force
//	sash_limit_window_seconds{policy,limit}     Window of each limit in force
//	sash_limit_burst_units{policy,limit}        Burst of each token bucket in force
//	sash_keys                                   keys that are tracked
//	sash_waiting_calls                          calls of Wait and its like that wait
//	sash_evicted_keys_total                     idle keys that were evicted
//	sash_displaced_keys_total                   keys that made room under WithMaxKeys
//	sash_refused_calls_total                    calls that were denied for lack of room
//	sash_shared_calls_total                     calls on a quota that keys share for lack of room
//	sash_invalid_calls_total                    calls denied for wrong limits of WithLimitsFor
//	sash_sweeps_total                           sweeps for idle keys
//
//	sash_policy_reloads_total{result}                 attempts to load changed policies: loaded or failed
//	sash_policy_last_reload_successful                1 if the last attempt has succeeded, or else 0
//	sash_policy_last_reload_success_timestamp_seconds when the last one that has succeeded did
//
// Metrics of reloads exist once [Metrics.ObserveReload] was called.
//
// Stores have no keys in this process, so under httplimit.WithStore the metrics from sash_keys
// on are missing. Without a store, sash_store_errors_total is.
//
// # The store of package sashredis
//
// [StoreCollector] has the figures of a sashredis.Limiter, which may be the one of httplimit.WithStore:
//
//	sash_store_decisions_total{by}            calls by who decided: store, mirror, lease or fallback
//	sash_store_round_trips_total              scripts that were sent to the store
//	sash_store_round_trip_failures_total      of them, those that the store did not answer
//	sash_store_round_trip_seconds             histogram: how long all of them took
//	sash_store_combined_calls_total           calls that went to the store together with an earlier one
//	sash_store_breaker_open                   1 while calls do not wait for the store, or else 0
//	sash_store_breaker_openings_total         how often that has begun
//	sash_store_leased_units_total             units that were leased
//	sash_store_returned_units_total           of them, those that were given back, or had flowed back
//	sash_store_invalid_calls_total            calls denied for wrong limits of WithLimitsFor or the call
//
// The bounds of the histogram are 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250 and 500 ms, and 1 s. This package
// does not require module sashredis.
//
// Next to this package are a dashboard for Grafana, dashboard.json, and alerts for Prometheus, alerts.yaml.
//
// # Units
//
// Policies with a Cost or a Settle have metrics in units, which the label unit names by the policy's Unit.
// Elsewhere each request costs one unit, so decisions tell. For each policy, summed over its limits,
//
//	charged = admitted - refunded + surcharged
//
// is what its requests were charged in the end, as far as they are answered. In promql:
//
//	sum by (policy) (sash_units_total{result="admitted"})
//	  - sum by (policy) (sash_refunded_units_total) + sum by (policy) (sash_surcharged_units_total)
//
// A few cases:
//   - A request counts with 2^40 units at most, before and after the answer. So a Content-Length that a client
//     has made up does not hide the others. A count starts again at 0 after 2^63 units.
//   - A settlement that the store may not have made counts as made, and in sash_store_errors_total.
//   - What sash.WithChargeDenied charges is not among the units that are admitted.
//   - The units that a limit by sash.AtOnce holds come back without being given back.
//   - Of a sash.Limiter, Commit and Cancel of a reservation are not observed. So its units are the ones
//     that were reserved.
//
// # Time in queues
//
// Policies with a Queue have a histogram of how long their requests have waited. Only requests that had to wait
// are in it, by their result: admitted, denied, withheld or abandoned. So its _count tells how many those were,
// out of sash_decisions_total. A request waits in all its queues at once, and counts under each policy
// with a Queue for the whole time. The bounds are
// 1, 5, 10, 25, 50, 100, 250 and 500 ms, and 1, 2.5, 5, 10, 30 and 60 s. It is a classic histogram. For a native
// one, Prometheus converts it if convert_classic_histograms_to_nhcb is set.
//
// # Denied clients
//
// A client counts in sash_denied_clients_total when a policy denies it for the first time since the process has
// started, also if the policy is a shadow. It needs httplimit.WithEventFingerprints(httplimit.Denied), and
// exists from the first such denial on. It is an estimate: the standard error is 0.4 % of 100,000 clients and
// 2.3 % of 500,000, and at about 700,000 the count stays. A policy keeps 8 kB for it, and nothing of the clients.
//
// # Labels
//
// The policy is the Name of the httplimit.Policy. It is empty for a sash.Limiter.
//
// The limit is the text of the limit that decided, such as "300/1m0s". For an admitted request
// of several limits, that is the one with the least left. Plans with equal limits share a text. A limit of
// a key's own, by WithLimitsFor or SetLimits, is "other" unless the policy or a plan has it, too. A new limit of Reconfigure is "other" until the next
// scrape. Without a decision, the limit is empty.
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
// So each request is counted once for each of its policies. The number of series depends on
// policies and their limits only, whatever clients send.
//
// # Cost
//
// To count a request allocates nothing. It costs a fraction of the request, for each of its policies. The
// decision itself writes nothing for it. The other figures are read when they are scraped.
package sashprometheus
