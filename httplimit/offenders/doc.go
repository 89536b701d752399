// Package offenders tells operators whom the policies of package httplimit deny: a [Page] shows
// which clients are denied most now, and a [Log] writes the first denial of each client in a
// window.
//
//	page := new(offenders.Page)
//	records := new(offenders.Log)
//	limiter := httplimit.Must(httplimit.New(
//		httplimit.WithObserver(page.Observe),
//		httplimit.WithObserver(records.Observe),
//		httplimit.WithEventFingerprints(httplimit.Denied),
//		policy,
//	))
//	operators := http.NewServeMux() // on an address that only operators reach
//	operators.Handle("/debug/offenders", page)
//
// Importing the package registers nothing.
//
// Clients are shown by fingerprints, which do not reveal who they are, and differ in every
// process. To show names, set [Page].Name or [Log].Name, and give [httplimit.New] the option
// [httplimit.WithEventIdentities].
//
// Without middleware, pass events of your own to Observe: it uses Policy, Outcome, Shadow,
// Decision, and Fingerprint or Identity.
package offenders
