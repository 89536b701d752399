package callgrind

// request makes a request of valgrind, with the arguments after its number. It returns 0 on a
// processor itself.
//
//go:noescape
func request(call *[6]uintptr) uintptr
