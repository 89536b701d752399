package policyfile

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
)

const schemaFile = "policies.schema.json"

func TestSchema_HasTheFieldsThatAreRead(t *testing.T) {
	data, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	type object struct {
		Required             []string
		Properties           map[string]any
		AdditionalProperties *bool
	}
	var schema struct {
		object
		Definitions map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(data, &schema))
	objects := map[string]object{"": schema.object}
	for name, definition := range schema.Definitions {
		var o object
		require.NoError(t, json.Unmarshal(definition, &o))
		if len(o.Properties) > 0 {
			objects[name] = o
		}
	}

	read := map[string][]field{
		"":        fileFields(nil),
		"policy":  policyFields(new(httplimit.Policy), nil),
		"keyOf":   keyFields(nil),
		"address": addressFields(nil),
		"source":  sourceFields(nil),
		"skip":    skipFields(nil),
		"plan":    planFields(nil),
		"classes": leaveFields(nil),
		"settle":  settleFields(nil),
		"queue":   queueFields(nil),
	}
	for name, o := range objects {
		require.Contains(t, read, name)
		var properties []string
		for p := range o.Properties {
			properties = append(properties, p)
		}
		var required []string
		for _, f := range read[name] {
			if f.required {
				required = append(required, f.name)
			}
		}
		require.ElementsMatch(t, fieldNames(read[name]), properties, "of %q", name)
		require.ElementsMatch(t, required, o.Required, "of %q", name)
		require.True(t, o.AdditionalProperties != nil && !*o.AdditionalProperties, "%q takes unknown fields", name)
	}
	require.Len(t, objects, len(read))
}

// Each field of a Policy has one in files.
func TestPolicy_HasAFieldForEachOfHttplimit(t *testing.T) {
	var want []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[httplimit.Policy]()) {
		kebab := regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(f.Name, "$1-$2")
		want = append(want, strings.ToLower(kebab))
	}
	require.ElementsMatch(t, want, fieldNames(policyFields(nil, nil)))
}
