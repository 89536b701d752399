// Package clientmodel is a model of clients that keep to the limits of servers: of
// httplimit.Transport, and of the interceptors of grpclimit and connectlimit. It is for their tests.
//
// A [Program] has clients that make calls, and servers that answer them. Some servers have random
// policies. Others answer what the program says, such as a Retry-After that means nothing. The
// program runs twice: on the package under test, with connections in memory in a bubble of
// testing/synctest, and on a simulation that holds limits in package reference. In both, each call
// must arrive at the same instants, and end at the same instant in the same way. So it is held
// back by denials of its own key only, for exactly as long as they tell.
//
// Limits are drawn of every algorithm that counts. The parts of a key under sash.SlidingParts begin at
// instants that follow from its name in the limiter, so the reference is told these names. Some
// programs make more calls than sash.SmallCount, as parts are the default of a larger Count.
//
// Limits by sash.AtOnce are drawn, too: of calls that take turns, so that each must have given its units back
// before the next one; and of calls that run at once, which wait for them in their order. There is none in a
// contest: units that come back while others ask for them would leave open who comes first.
//
// A contest is how long workers take who have only a quota to keep to. Those that obey denials must
// take no longer than those that ignore them, and try again when a denial says. Over HTTP a denial
// tells whole seconds, so the limits of these contests admit at whole seconds.
//
// Calls of one program either take turns, under any limit of the client's own, or run at once,
// under one that admits all, or one of the calls under way. So the model does not reach the order of calls
// that wait for a rate: the tests of Limiter.Wait do. If two events at one instant can come in either
// order, such as a deadline and an answer, the program has no verdict.
//
// Nor does the model reach the policies of messages, and what servers charge in the end, which other
// tests do; the attempts that grpc-go repeats by itself, since its backoff is random; the fallback of
// a Store; and a Key or Cost that panics.
package clientmodel
