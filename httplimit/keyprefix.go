package httplimit

import (
	"encoding/binary"
	"math"
	"strings"
)

// A keyForm says how a key holds an identity.
type keyForm uint8

const (
	foreign  keyForm = iota // nothing: the key is not one of the limiter's
	whole                   // the identity
	digested                // its digest, since it was too long
)

// appendKeyPrefix appends the prefix with which every key of the sash.Limiter begins. It is a varint:
// twice the number of the policy, plus 1 in front of a digest. No varint is a prefix of another one. So
// no key of one policy is a key of another policy, and no digest is taken for an identity.
func appendKeyPrefix(key []byte, policy int, form keyForm) []byte {
	n := uint64(policy) << 1
	if form == digested {
		n |= 1
	}
	return binary.AppendUvarint(key, n)
}

// cutKeyPrefix returns the number of the policy in a key of the sash.Limiter, and the identity or its
// digest.
func cutKeyPrefix(key string) (policy int, identity string, form keyForm) {
	// A prefix holds at most 32 bits, so it takes no more bytes.
	var n uint64
	for i := 0; i < len(key) && i < binary.MaxVarintLen32; i++ {
		n |= uint64(key[i]&0x7f) << (7 * i)
		if key[i] >= 0x80 {
			continue
		}
		if form = whole + keyForm(n&1); key[i] == 0 && i > 0 || n>>1 > math.MaxInt32 {
			form = foreign // appendKeyPrefix writes the shortest varint, and no number as large
		}
		return int(n >> 1), key[i+1:], form
	}
	return 0, "", foreign
}

// The bytes after the names of the policy and of the plan in a key of a store. No name contains
// them, since names are printable.
const (
	storedIdentity = "\x00" // what follows is the identity
	storedDigest   = "\x01" // what follows is the digest of an identity that was too long
	storedPlan     = "\x02" // what follows, up to one of the others, is the plan
)

// storedKey returns the key in a store of a key under p. It begins with the names of the policy
// and of the plan, which are the same in all processes, and not with a number. It shares no memory
// with key.
func (p *policy) storedKey(key string) string {
	_, identity, form := cutKeyPrefix(key)
	if form == digested {
		return p.storedName + storedDigest + identity
	}
	return p.storedName + storedIdentity + identity
}

// HashTag returns the identity in a key of a [Limiter] with a [Store]: the key without the name
// of its policy. It is for policies that identify clients alike, on a Redis cluster: the keys of
// one client under all of them are then in one slot. See [WithStore].
func HashTag(key string) string {
	return key[strings.IndexAny(key, storedIdentity+storedDigest)+1:]
}
