package httplimit

// Decided reports whether an event with this outcome has a Decision.
func Decided(o Outcome) bool { return o.decided() }
