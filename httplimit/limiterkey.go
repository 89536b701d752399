package httplimit

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"math"
	"net/http"
)

// appendKeyPrefix appends the prefix with which every key of the sash.Limiter begins.
// It is a varint: twice the number of the policy, plus 1 if the identity was too long
// and is replaced by its digest. No varint is a prefix of another one. So no key of one
// policy is a key of another policy, and no digest is taken for an identity.
func appendKeyPrefix(key []byte, policy int, digest bool) []byte {
	n := uint64(policy) << 1
	if digest {
		n |= 1
	}
	return binary.AppendUvarint(key, n)
}

// cutKeyPrefix cuts the prefix off a key. ok is false if key does not begin with a
// prefix that appendKeyPrefix makes. If digest is true, identity is the digest of the
// identity.
func cutKeyPrefix(key string) (policy int, identity string, digest, ok bool) {
	var n uint64
	for i := 0; i < len(key) && i < binary.MaxVarintLen32; i++ {
		n |= uint64(key[i]&0x7f) << (7 * i)
		if key[i] < 0x80 {
			shortest := key[i] > 0 || i == 0
			return int(n >> 1), key[i+1:], n&1 != 0, shortest && n>>1 <= math.MaxInt32
		}
	}
	return 0, "", false, false
}

// maxIdentity is the length in bytes up to which a key holds the identity. The key of a longer
// one holds its digest.
const maxIdentity = 128

// appendKey appends to keys the key of r under p: the prefix, and the identity of the
// client. It returns the index at which the identity begins.
//
// The KeyFunc appends to a buffer of its own. So a KeyFunc that replaces the slice
// instead of appending cannot forge the key of another policy. A long identity is
// replaced by its digest, so that a client cannot fill the memory with a few requests.
func (c *call) appendKey(p *policy, r *http.Request) (body int, ok bool) {
	if c.identity, ok = p.Key(c.identity[:0], r); !ok {
		return 0, false
	}
	long := len(c.identity) > maxIdentity
	c.keys = appendKeyPrefix(c.keys, p.number, long)
	body = len(c.keys)
	if long {
		digest := sha256.Sum256(c.identity)
		c.keys = append(c.keys, digest[:]...)
	} else {
		c.keys = append(c.keys, c.identity...)
	}
	return body, true
}

// newSecret returns the cipher of fingerprints, with a random key that never leaves the process.
func newSecret() cipher.Block {
	var key [aes.BlockSize]byte
	_, _ = rand.Read(key[:]) // never fails
	secret, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // a key of that length is right
	}
	return secret
}

// fingerprint returns the fingerprint of t's identity in this process: its CBC-MAC by AES with
// a secret key. The length comes first, with which a CBC-MAC is pseudorandom for messages of any
// length. Without the key, an identity cannot be told from its fingerprint, not even by
// trying all addresses. A fast seeded hash would not do: it can be inverted, so that a client that
// knows one identity and its hash could compute the seed. A digest with a secret would do, but
// takes several times as long.
func (c *call) fingerprint(t *take) uint64 {
	var zeros [aes.BlockSize]byte
	identity := t.key[t.body-t.begin:]
	rest := append(binary.AppendUvarint(c.identity[:0], uint64(len(identity))), identity...)
	rest = append(rest, zeros[:-len(rest)&(aes.BlockSize-1)]...) // to whole blocks
	c.identity = rest
	for {
		mac := rest[:aes.BlockSize]
		c.secret.Encrypt(mac, mac)
		if rest = rest[aes.BlockSize:]; len(rest) == 0 {
			return binary.BigEndian.Uint64(mac)
		}
		subtle.XORBytes(rest, rest[:aes.BlockSize], mac)
	}
}
