package sash

import (
	"hash/maphash"
	"math/rand/v2"
	"unsafe"
)

// A hasher hashes keys. Its seeds are random, so its hashes are of no use in another
// process. A client cannot predict them, and so cannot choose keys that collide.
type hasher struct {
	runtime uint64       // the seed of memhash, used where a word has 64 bits
	maphash maphash.Seed // the seed of hash/maphash, used elsewhere
}

func newHasher() hasher { return hasher{rand.Uint64(), maphash.MakeSeed()} }

// hash returns the hash of s.
func (h *hasher) hash(s string) uint64 {
	// hash/maphash calls memhash, too, but through three functions, which take half of its time.
	if unsafe.Sizeof(uintptr(0)) == 8 {
		return uint64(memhash(unsafe.Pointer(unsafe.StringData(s)), uintptr(h.runtime), uintptr(len(s))))
	}
	return maphash.String(h.maphash, s)
}

// memhash is the hash function of Go's own maps. The runtime keeps it accessible, as many
// packages use it; xsync is one of them.
//
//go:noescape
//go:linkname memhash runtime.memhash
func memhash(p unsafe.Pointer, seed, length uintptr) uintptr
