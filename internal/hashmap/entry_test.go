package hashmap

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// An owner has more state than one word, with a pointer in it.
type owner struct {
	_ *int
	Entry
}

func (o *owner) header() *Entry { return &o.Entry }

func TestEntry_ComparesEveryByteOfItsName(t *testing.T) {
	for length := range 130 { // more than is inline in an owner
		name := strings.Repeat("k", length)
		for kind, e := range map[string]*Entry{"alone": New(name), "in an owner": NewIn(name, (*owner).header).header()} {
			require.Equal(t, name, e.Name())
			require.True(t, e.HasName(strings.Clone(name)), "%s, %d bytes", kind, length)
			require.False(t, e.HasName(name+"k"), "%s, %d bytes", kind, length)
			for i := range length {
				require.False(t, e.HasName(name[:i]), "%s, %d bytes", kind, length)
				require.False(t, e.HasName(name[:i]+"K"+name[i+1:]), "%s, %d bytes, another at %d", kind, length, i)
			}
		}
	}
}

// The two parts of HasName that are inlined are right for an inline name, and leave an
// external one to HasName.
func TestEntry_ComparesInlineNamesInTwoParts(t *testing.T) {
	for _, name := range []string{"", "k", "203.0.113.7"} {
		require.True(t, New(name).HasInlineLen(len(name)))
		require.False(t, New(name).HasInlineLen(len(name)+1))
		require.True(t, New(name).InlineNameIs(strings.Clone(name)))
	}
	require.False(t, New("203.0.113.7").InlineNameIs("203.0.113.8"))
}

// An entry keeps a copy, as the caller may reuse its bytes.
func TestEntry_KeepsACopyOfItsName(t *testing.T) {
	bytes := []byte("before")
	name := unsafe.String(&bytes[0], len(bytes))
	alone, owned := New(name), NewIn(name, (*owner).header)
	copy(bytes, "after!")
	require.Equal(t, "before", alone.Name())
	require.Equal(t, "before", owned.Name())

	long := []byte(strings.Repeat("k", 1000))
	external := NewIn(unsafe.String(&long[0], len(long)), (*owner).header)
	long[0] = 'K'
	require.Equal(t, strings.Repeat("k", 1000), external.Name())
}

func TestEntry_MustBeTheLastFieldOfItsOwner(t *testing.T) {
	type wrong struct {
		Entry
		_ *int
	}
	require.Panics(t, func() { NewIn("k", func(w *wrong) *Entry { return &w.Entry }) })
}

// Up to a length of 104 bytes, an owner and its name are one object; a longer name is one
// more.
func TestEntry_IsOneObjectWithItsOwnerAndItsName(t *testing.T) {
	var keep *owner
	for length, objects := range map[int]float64{0: 1, 8: 1, 9: 1, 40: 1, 104: 1, 105: 2} {
		name := strings.Repeat("k", length)
		require.Equal(t, objects, testing.AllocsPerRun(100, func() { keep = NewIn(name, (*owner).header) }), "%d bytes", length)
	}
	require.NotNil(t, keep)
}

func TestEntry_SizeIsPinned(t *testing.T) {
	require.EqualValues(t, 16, unsafe.Sizeof(Entry{}))
}
