package policyfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/policytree"
)

func TestTree_HasWhatTheFileHas(t *testing.T) {
	root, err := policytree.Parse("limits.yaml", []byte("parts: {a: &a [5/s, 60]}\npolicies:\n  - {limits: *a, shadow: true, key: \"x\", unit: }\n"))
	require.NoError(t, err)
	p := root.Field("policies").Items[0]
	assert.Equal(t, &policytree.Node{
		Line: 3, Column: 5, Kind: policytree.Mapping,
		Entries: []policytree.Entry{
			{Name: "limits", Value: &policytree.Node{Line: 1, Column: 12, Kind: policytree.List, Items: []*policytree.Node{
				{Line: 1, Column: 16, Kind: policytree.Text, Text: "5/s"}, {Line: 1, Column: 21, Kind: policytree.Scalar, Text: "60"},
			}}},
			{Name: "shadow", Value: &policytree.Node{Line: 3, Column: 26, Kind: policytree.Scalar, Text: "true"}},
			{Name: "key", Value: &policytree.Node{Line: 3, Column: 37, Kind: policytree.Text, Text: "x"}},
			{Name: "unit", Value: &policytree.Node{Line: 3, Column: 48, Kind: policytree.Scalar}},
		},
	}, p)
	assert.Len(t, p.Field("limits").Each(), 2)
	assert.Len(t, p.Field("key").Each(), 1)
	assert.Nil(t, p.Field("none").Each())
	assert.Nil(t, p.Field("limits").Field("none"))

	_, err = policytree.Parse("limits.json", []byte(`{"policies": [`))
	assert.ErrorAs(t, err, new(Errors))
	assert.ErrorContains(t, err, "limits.json:1:14: ")
}
