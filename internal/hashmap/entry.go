package hashmap

import (
	"math"
	"runtime"
	"strings"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// An Entry is what a Map holds for a name: one word of state, and the name. Its owner
// may embed it as the last field of a larger struct, and store the rest of the state in
// front of it: see NewIn.
//
// The name lies directly behind the Entry, in one object with it, and never changes. It is
//   - inline: its bytes;
//   - external: a string, whose bytes are in another object.
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
func New(name string) *Entry { return NewAfter(0, name) }

// NewAfter is New with that number of words, all 0, directly in front of the Entry, in the same object.
func NewAfter(front int, name string) *Entry {
	const header, word = int(unsafe.Sizeof(Entry{})), 8
	words := make([]uint64, front+(header+max(1, len(name))+word-1)/word) // for "", too: no pointer may point past its object
	e := (*Entry)(unsafe.Pointer(&words[front]))
	e.setInlineName(name)
	return e
}

// Before returns the first of the front words that lie in front of e: see NewAfter.
func (e *Entry) Before(front int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(e), -front*int(unsafe.Sizeof(uint64(0)))))
}

// NewIn returns a T with a copy of name. header returns the Entry of a T, which must be
// its last field. A name of up to 104 bytes is inline: T and name are one object.
//
// An object with pointers must have a type, and a type has one size. So there is one for
// each of a few lengths. The steps are the sizes in which Go allocates.
func NewIn[T any](name string, header func(*T) *Entry) *T {
	switch n := len(name); {
	case n <= 8:
		return newInline[T, [8]byte](name, header)
	case n <= 24:
		return newInline[T, [24]byte](name, header)
	case n <= 40:
		return newInline[T, [40]byte](name, header)
	case n <= 56:
		return newInline[T, [56]byte](name, header)
	case n <= 72:
		return newInline[T, [72]byte](name, header)
	case n <= 88:
		return newInline[T, [88]byte](name, header)
	case n <= 104:
		return newInline[T, [104]byte](name, header)
	}
	owner, e, behind := newBefore[T, string](header)
	e.nameLen, *behind = external, strings.Clone(name)
	return owner
}

// newInline is NewIn for a name that an N has room for.
func newInline[T, N any](name string, header func(*T) *Entry) *T {
	owner, e, _ := newBefore[T, N](header)
	e.setInlineName(name)
	return owner
}

// newBefore returns a T with an N directly behind its Entry.
func newBefore[T, N any](header func(*T) *Entry) (owner *T, e *Entry, behind *N) {
	both := new(struct {
		owner  T
		behind N
	})
	e = header(&both.owner)
	if unsafe.Pointer(&both.behind) != e.behind() {
		panic("hashmap: an Entry must be the last field of its owner")
	}
	return &both.owner, e, &both.behind
}

// setInlineName copies name behind e, where there must be room for it.
func (e *Entry) setInlineName(name string) {
	e.nameLen = uint64(len(name))
	copy(unsafe.Slice((*byte)(e.behind()), len(name)), name)
}

// Name returns the name of e. The string shares the memory of e.
func (e *Entry) Name() string {
	if e.nameLen == external {
		return *(*string)(e.behind())
	}
	return unsafe.String((*byte)(e.behind()), e.nameLen)
}

// HasName reports whether name is the name of e.
func (e *Entry) HasName(name string) bool {
	if e.HasInlineLen(len(name)) {
		return e.InlineNameIs(name)
	}
	return e.nameLen == external && *(*string)(e.behind()) == name
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

// behind returns the address of the first byte after e: of its inline name, or of the
// string with its external name.
func (e *Entry) behind() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(e), unsafe.Sizeof(*e)) }
