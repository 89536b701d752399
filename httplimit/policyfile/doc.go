// Package policyfile reads the policies of package httplimit from files of JSON and YAML.
//
//	policies, err := policyfile.Load("limits.yaml", policyfile.WithKey("account", byAccount))
//
// A file has all that is data in an [httplimit.Policy]. The program keeps the functions, and
// gives them names that the file may use: [WithKey], [WithPlan],
// [WithCost], [WithLeave], [WithSkip], [WithSettle].
//
//	policies:
//	  - name: api
//	    pattern: /api/
//	    limits: [100/m, 5000/day]
//	    key:
//	      first-of:
//	        - account
//	        - address: {trust-proxies: 10.0.0.0/8}
//	  - name: login
//	    pattern: POST /login
//	    limits: 5/h
//	    key: address
//	    charge: 401
//
// All faults of a file are reported together, each with its place:
//
//	limits.yaml:4:21: policies[0].limits[1]: sash: limit "5000r/day", did you mean "5000/day"?: ...
//	limits.yaml:10:5: policies[1].pattrn: unknown field, did you mean "pattern"?; ...
//
// The command sash check explains a file, and warns of likely mistakes. sash replay -policy tells what its
// policies would have done to the requests of an access log.
//
// # Fields
//
// A file is a mapping with policies, a list. It may have $schema, which editors read, and parts,
// which is ignored: it is a place for YAML anchors. The fields of a policy are the fields of
// [httplimit.Policy]. name, limits and key are required.
//
//   - name: text of at most 128 characters, as are the names of plans.
//   - pattern: text, such as POST /login.
//   - limits: one limit or a list, in the form of [sash.ParseLimit]: 100/m, 10/s burst 100, 5 at once for
//     1m. The last bounds the requests that are under way: each holds its place until its handler has
//     returned, but no longer than the lease behind for, which must be longer than any handler runs.
//   - plan: the plan of a request: {header: NAME}, for a header that a proxy in front of the server
//     overwrites in each request, or a name of [WithPlan]. A header that clients choose would let
//     them choose their limits. A request without the header, or with several, has no plan.
//   - plans: the limits of each plan, by its name. Other requests have limits. plan and plans need
//     each other.
//   - key: who makes a request; see below.
//   - cost: a number of units, or a name of [WithCost].
//   - leave: how much must remain after a request, of what all limits of its plan admit: a number of
//     units; a share such as 20%, in whole percent; a name of [WithLeave]; or a mapping with header, the
//     name of a header that a proxy in front of the server overwrites in each request, and classes, the
//     number or share of each of its values. A request of another class leaves nothing. A share is of the
//     smallest limit that the request has, by the Count or the Burst, also of a limit of what is at once,
//     and is rounded up; to find it, the function of [WithPlan] is called once more. A request that would
//     have to leave all of a limit is never admitted.
//   - near: a share such as 20%, in whole percent. The observer of the limiter is told of each request that
//     leaves less than that of a limit.
//   - unit: text of at most 128 characters.
//   - skip: a name of [WithSkip], or a mapping with methods, networks or function, a name of
//     WithSkip. It skips requests with one of the methods, from one of the networks, or for which
//     the function says so. With networks, it may have address, the source of the address as in a
//     key.
//   - charge: for which answers a request stays charged: one or a list of statuses such as 401, classes
//     such as 4xx, and codes of gRPC such as UNAUTHENTICATED. Under packages grpclimit and connectlimit, an
//     answer has a code and no status, so name codes there. A policy that names statuses alone there gives
//     back each charge whose answer is certain. So does a policy of HTTP requests that names codes alone.
//   - charge-uncertain: the same for uncertain answers. none means that there was no status, and is the
//     same as OK. A call whose client has gone has the code CANCELLED or DEADLINE_EXCEEDED. An empty list
//     gives all of them back.
//   - settle: bytes, estimate, {header: NAME} for [httplimit.SettleHeader], or a name of
//     [WithSettle].
//   - queue: a mapping with wait, a duration such as 2s; requests; and, if you like,
//     requests-each and requests-per-client.
//   - shadow: true or false.
//
// # Keys
//
// A key is one of these:
//
//   - address: the client's address by [httplimit.ByAddress]. As the name of a mapping, it has
//     the options trust-proxies (one or a list of networks and addresses), trust-hops,
//     trust-unix-socket, read-forwarded, read-header, ipv4-prefix and ipv6-prefix.
//   - {header: NAME}: [httplimit.ByHeader].
//   - route: [httplimit.ByRoute].
//   - everyone: [httplimit.Everyone].
//   - {join: [KEY, KEY]}: [httplimit.Join].
//   - {first-of: [KEY, KEY]}: [httplimit.FirstOf].
//   - a name of [WithKey].
//
// # YAML and JSON
//
// A file is JSON if its name ends in .json, and YAML otherwise. Both have the same fields, and
// errors of the same form. In both, a name that is given twice is a fault, and text must be text:
// write a name such as 42 or true in quotes. No text is longer than 512 bytes. Numbers are whole,
// and in digits.
//
// A YAML file has one document. An alias stands for a whole value; << and tags are refused. A
// fault in what an alias stands for has the place of the anchor.
//
// The JSON Schema policies.schema.json lets editors complete and check files. In YAML, many
// editors read it from the first line of a file:
//
//	# yaml-language-server: $schema=policies.schema.json
package policyfile
