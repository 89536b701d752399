package hashmap

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A namedEntry is an entry with an external name, as an owner may embed it.
type namedEntry struct {
	Entry
	externalName ExternalName
}

func newNamedEntry(name string) *Entry {
	e := new(namedEntry)
	e.SetExternalName(&e.externalName, name)
	return &e.Entry
}

func TestEntry_ComparesEveryByteOfItsName(t *testing.T) {
	for length := range 41 {
		name := strings.Repeat("k", length)
		for kind, e := range map[string]*Entry{"inline": New(name), "external": newNamedEntry(name)} {
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
		require.False(t, newNamedEntry(name).HasInlineLen(len(name)))
	}
	require.False(t, New("203.0.113.7").InlineNameIs("203.0.113.8"))
}

// An entry keeps a copy, as the caller may reuse its bytes.
func TestEntry_KeepsACopyOfItsName(t *testing.T) {
	bytes := []byte("before")
	name := unsafe.String(&bytes[0], len(bytes))
	inline, named := New(name), newNamedEntry(name)
	copy(bytes, "after!")
	require.Equal(t, "before", inline.Name())
	require.Equal(t, "before", named.Name())
}

func TestEntry_ExternalNameMustFollowIt(t *testing.T) {
	var elsewhere ExternalName
	require.Panics(t, func() { new(Entry).SetExternalName(&elsewhere, "k") })
}

func TestEntry_SizeIsPinned(t *testing.T) {
	require.EqualValues(t, 16, unsafe.Sizeof(Entry{}))
	require.EqualValues(t, 16, unsafe.Offsetof(namedEntry{}.externalName))
}
