// Package sashprometheus exports what the limiters of packages httplimit and sash do as metrics
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
//	sash_refunds_total{policy}                  charges that were given back after the answer
//	sash_settlements_total{policy}              charges that were changed to another cost after the answer
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
// Stores have no keys in this process, so under httplimit.WithStore the metrics from sash_keys
// on are missing. Without a store, sash_store_errors_total is.
//
// # Labels
//
// The policy is the Name of the httplimit.Policy. It is empty for a sash.Limiter.
//
// The limit is the text of the limit that decided, such as "300/1m0s". For an admitted request
// of several limits, that is the one with the least left. All limits of keys' own, by
// WithLimitsFor and SetLimits, are "other". A new limit of Reconfigure is "other" until the next
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
// To count a request costs some 35 ns for each of its policies, and allocates nothing. The
// decision itself writes nothing for it. The other figures are read when they are scraped.
package sashprometheus
