package sash

import (
	"hash/maphash"
	"math/rand/v2"
	"unsafe"
)

// A hasher hashes keys. Its values are good for one process only, and cannot
// be predicted outside it: nobody can choose keys that collide.
type hasher struct {
	runtime uint64       // seed where a word has 64 bits
	maphash maphash.Seed // and elsewhere
}

func newHasher() hasher { return hasher{rand.Uint64(), maphash.MakeSeed()} }

// hash is hash/maphash, which spends half its time on the way through three
// functions to memhash, less that way.
func (h *hasher) hash(s string) uint64 {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		return uint64(memhash(unsafe.Pointer(unsafe.StringData(s)), uintptr(h.runtime), uintptr(len(s))))
	}
	return maphash.String(h.maphash, s)
}

// memhash is the hash of Go's own maps. The runtime keeps it within reach for
// the many packages that use it, of which xsync is one.
//
//go:noescape
//go:linkname memhash runtime.memhash
func memhash(p unsafe.Pointer, seed, length uintptr) uintptr
