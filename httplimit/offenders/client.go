package offenders

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-30da4c49/sash/httplimit"
)

// maxIdentity is the length in bytes up to which an identity is kept. A longer one is cut, and
// told from others by its digest.
const maxIdentity = 128

// A client is one identity under one policy.
type client struct {
	policy   string
	identity string // as much of it as is kept; empty if clients are known by fingerprints
	digest   uint64 // the fingerprint, or the digest of an identity that is cut
}

// seed seeds the digests of identities that are cut, and hashes. It never leaves the process, so no
// client can choose a name that collides with another client's.
var seed = maphash.MakeSeed()

// clientOf returns the client of an event. Its identity, if it is named, shares the memory of that
// of the event.
func clientOf(e *httplimit.Event, named bool) client {
	if named && e.Identity != "" {
		return clientNamed(e.Policy, e.Identity)
	}
	return client{policy: e.Policy, digest: e.Fingerprint}
}

// clientNamed returns the client with an identity under a policy.
func clientNamed(policy, identity string) client {
	if len(identity) <= maxIdentity {
		return client{policy: policy, identity: identity}
	}
	return client{policy: policy, identity: identity[:maxIdentity], digest: maphash.String(seed, identity)}
}

// clone returns a copy of c that does not keep the memory of an identity, which may be much more
// than what is kept of it.
func (c client) clone() client {
	c.identity = strings.Clone(c.identity)
	return c
}

// hash returns a hash of c. It costs less than one of all fields by reflection. A fingerprint is a
// digest with a secret, so one multiplication is enough to spread it. One client has the same hash under
// policies whose names have the same length.
func (c *client) hash() uint64 {
	h := c.digest ^ uint64(len(c.policy))
	if c.identity != "" {
		h ^= maphash.String(seed, c.identity)
	}
	h *= 0x9e37_79b9_7f4a_7c15 // 2^64 divided by the golden ratio
	return h ^ h>>32
}

// Identity names a client by its identity as it is. It is for identities that are text, such as
// names of accounts. Use [Address] for identities by [httplimit.ByAddress].
func Identity(_, identity string) string { return identity }

// Address names a client of [httplimit.ByAddress] or [httplimit.ByAddressOf] by its address or
// network, such as 203.0.113.7 or 2001:db8::/64; see [httplimit.AddressOfIdentity]. It names
// another client by its identity as it is.
func Address(_, identity string) string {
	if address, ok := httplimit.AddressOfIdentity(identity); ok {
		return address
	}
	return identity
}

// name returns the name of c: what namer says, or its fingerprint if namer is nil or c has no
// identity. It is printable, and bounded in length, whatever the identity is.
func (c client) name(namer func(policy, identity string) string) string {
	switch {
	case namer == nil || c.identity == "":
		return fingerprint(c.digest)
	case c.digest != 0:
		return printable(namer(c.policy, c.identity)) + "…" + fingerprint(c.digest)
	}
	return printable(namer(c.policy, c.identity))
}

// unknown is the name of all clients whose events do not tell them apart.
const unknown = "unknown"

// fingerprint returns the text of a fingerprint, which is 0 if events have none.
func fingerprint(digest uint64) string {
	if digest == 0 {
		return unknown
	}
	return fmt.Sprintf("%016x", digest)
}

// printable returns s, cut to maxName bytes. If it has characters that are not printed as they
// are, or cannot be told from the quotes around it, it is a Go string in quotes.
func printable(s string) string {
	const maxName = 2 * maxIdentity
	cut := ""
	if len(s) > maxName {
		s, cut = strings.ToValidUTF8(s[:maxName], ""), "…"
	}
	plain := utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) || r == '"' || r == '\\' || r == utf8.RuneError
	})
	if plain && strings.TrimSpace(s) != "" {
		return s + cut
	}
	return strconv.Quote(s) + cut
}
