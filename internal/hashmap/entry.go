package hashmap

import (
	"math"
	"runtime"
	"strings"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// An Entry is what a Map holds for a name: one word of state, and the name. Its owner
// may embed it as the first field of a larger struct, and store the rest of the state
// there.
//
// The name lies in one of two places, and never changes once the Entry is in a Map:
//   - inline, directly behind the Entry and in one object with it: see New;
//   - external, in a string of its own: see SetExternalName.
//
// A Map reads the name, and neither reads nor writes Word.
type Entry struct {
	Word    atomic.Uint64
	nameLen uint64 // of an inline name; or external
}

// external is the nameLen of an Entry whose name is external.
const external = math.MaxUint64

// New returns an Entry with an inline copy of name. Entry and name are one object of the
// heap without pointers, so the garbage collector does not scan it. For most names a
// look-up reads one cache line of it.
func New(name string) *Entry {
	const header, word = int(unsafe.Sizeof(Entry{})), 8
	words := make([]uint64, (header+max(1, len(name))+word-1)/word) // for "", too: no pointer may point past its object
	e := (*Entry)(unsafe.Pointer(&words[0]))
	e.nameLen = uint64(len(name))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*word)[header:], name)
	return e
}

// An ExternalName holds the external name of an Entry. It must be the field that follows
// the Entry in its struct.
type ExternalName struct{ name string }

// SetExternalName gives e a copy of name, and stores it in x, which must lie directly
// behind e. No other goroutine may know e yet.
func (e *Entry) SetExternalName(x *ExternalName, name string) {
	if unsafe.Pointer(x) != e.behind() {
		panic("hashmap: an external name must lie directly behind its entry")
	}
	e.nameLen, x.name = external, strings.Clone(name)
}

// Name returns the name of e. The string shares the memory of e.
func (e *Entry) Name() string {
	if e.nameLen == external {
		return (*ExternalName)(e.behind()).name
	}
	return unsafe.String((*byte)(e.behind()), e.nameLen)
}

// HasName reports whether name is the name of e.
func (e *Entry) HasName(name string) bool {
	if e.HasInlineLen(len(name)) {
		return e.InlineNameIs(name)
	}
	return e.nameLen == external && (*ExternalName)(e.behind()).name == name
}

// HasInlineLen reports whether the name of e is inline and n bytes long. With
// InlineNameIs it is the part of HasName that the compiler inlines.
func (e *Entry) HasInlineLen(n int) bool { return e.nameLen == uint64(n) }

// InlineNameIs reports whether name is the name of e, which must be inline and as long
// as name. It compares names of 4 to 16 bytes, a usual length of addresses, as two words
// that may overlap, and makes no call for them.
func (e *Entry) InlineNameIs(name string) bool {
	a := unsafe.Add(unsafe.Pointer(e), unsafe.Sizeof(*e)) // e.behind(), which would leave a no-op here
	b, n := unsafe.Pointer(unsafe.StringData(name)), len(name)
	if unalignedWords && uint(n-8) <= 8 {
		return *(*uint64)(a) == *(*uint64)(b) && *(*uint64)(unsafe.Add(a, n-8)) == *(*uint64)(unsafe.Add(b, n-8))
	}
	if unalignedWords && uint(n-4) <= 4 {
		return *(*uint32)(a) == *(*uint32)(b) && *(*uint32)(unsafe.Add(a, n-4)) == *(*uint32)(unsafe.Add(b, n-4))
	}
	return unsafe.String((*byte)(a), n) == name
}

// unalignedWords reports whether the processor can load a word from any address.
const unalignedWords = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// behind returns the address of the first byte after e: of its inline name, or of its
// ExternalName.
func (e *Entry) behind() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(e), unsafe.Sizeof(*e)) }
