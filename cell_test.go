package sash

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCell_IsNamedByEveryByte(t *testing.T) {
	for length := range 41 {
		name := strings.Repeat("k", length)
		for kind, c := range map[string]*cell{"behind": newCounter(name), "elsewhere": new(wideCounter).keep(name)} {
			require.Equal(t, name, c.name())
			require.True(t, c.named(strings.Clone(name)), "%s, %d bytes", kind, length)
			require.False(t, c.named(name+"k"), "%s, %d bytes", kind, length)
			for i := range length {
				require.False(t, c.named(name[:i]), "%s, %d bytes", kind, length)
				require.False(t, c.named(name[:i]+"K"+name[i+1:]), "%s, %d bytes, another at %d", kind, length, i)
			}
		}
	}
}
