package policyfile_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// left returns what requests of a policy with those fields leave, if they have that header X-Class and
// that plan.
func left(t *testing.T, fields, class, plan string, options ...policyfile.Option) int64 {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	if class != "" {
		r.Header.Set("X-Class", class)
	}
	r.Header.Set("X-Plan", plan)
	policies, err := policyfile.Parse("limits.yaml", []byte("policies: [{name: a, key: everyone, "+fields+"}]"), options...)
	require.NoError(t, err)
	return policies[0].Leave(r)
}

func TestLeave_IsANumberAShareOrAFunction(t *testing.T) {
	for fields, want := range map[string]int64{
		"limits: 100/m, leave: 20":                                  20,
		"limits: 100/m, leave: 20%":                                 20,
		"leave: 20%, limits: [101/m, 5000/day]":                     21, // rounded up, of limits behind it
		"limits: [100/m, 10/s burst 50], leave: 10%":                5,
		"limits: [unlimited, 100/m], leave: 1%":                     1,
		"limits: [100/m, 20 at once for 1h], leave: 10%":            2,
		"limits: unlimited, leave: 50%":                             0,
		"limits: 9223372036854775807/m log, leave: 100%":            9223372036854775807,
		"limits: 9223372036854775807/m log, leave: 1%":              92233720368547759,
		"limits: 100/m, leave: ours":                                7,
		"limits: 1/m, leave: {header: X-Class, classes: {b: 5}}":    0,
		"limits: 1/m, leave: {header: x-class, classes: {a: 100%}}": 1,
	} {
		ours := policyfile.WithLeave("ours", func(*http.Request) int64 { return 7 })
		require.Equal(t, want, left(t, fields, "a", "", ours), fields)
	}
	policies, err := policyfile.Parse("a.json", []byte(`{"policies": [{"name": "a", "key": "everyone", "limits": "9/s", "leave": "50%"}]}`))
	require.NoError(t, err)
	require.EqualValues(t, 5, policies[0].Leave(nil))
	policies, err = policyfile.Parse("a.yaml", []byte("policies: [{name: a, key: everyone, limits: 9/s, leave: 0}, {name: b, key: everyone, limits: 9/s}]"))
	require.NoError(t, err)
	require.Nil(t, policies[0].Leave, "nothing is left, at no cost")
	require.Nil(t, policies[1].Leave)
}

func TestLeave_OfAClassUnderAPlan(t *testing.T) {
	const fields = "limits: 10/m, leave: {header: X-Class, classes: {background: 20%, batch: 60}}, " +
		"plan: {header: X-Plan}, plans: {pro: [1000/m, 400/s]}"
	require.EqualValues(t, 2, left(t, fields, "background", ""))
	require.EqualValues(t, 2, left(t, fields, "background", "unknown"))
	require.EqualValues(t, 80, left(t, fields, "background", "pro"))
	require.EqualValues(t, 60, left(t, fields, "batch", "pro"))
	require.EqualValues(t, 0, left(t, fields, "urgent", "pro"))
	require.EqualValues(t, 0, left(t, fields, "", "pro"))
}

func TestLeave_FaultsHaveTheirPlaces(t *testing.T) {
	for leave, want := range map[string]string{
		"-1":                                     "leave: must be a whole number from 0 to 9007199254740992, in digits, got -1",
		"1.5":                                    "leave: must be a whole number from 0 to 9007199254740992, in digits, got 1.5",
		"0%":                                     `leave: must be a share from 1% to 100%, in whole percent, got "0%"`,
		"101%":                                   `leave: must be a share from 1% to 100%, in whole percent, got "101%"`,
		"2.5%":                                   `leave: must be a share from 1% to 100%, in whole percent, got "2.5%"`,
		"020%":                                   `leave: must be a share from 1% to 100%, in whole percent, got "020%"`,
		"ours":                                   `leave: nothing is named "ours"; none is known; the program adds names by WithLeave`,
		"[1]":                                    "leave: must be a number, a share such as 20%, a name or a mapping, got a list",
		"{}":                                     "leave: header is missing",
		"{header: Host, classes: {a: 1}}":        `leave.header: requests have no header "Host"`,
		"{header: X, classes: {}}":               "leave.classes: must not be empty",
		"{header: X, classes: 5}":                "leave.classes: must be a mapping of classes to what they leave, got 5",
		"{header: X, classes: {a: ours}}":        `leave.classes.a: must be a number of units or a share such as 20%, got "ours"`,
		"{header: X, classes: {a: true}}":        "leave.classes.a: must be a whole number from 0 to 9007199254740992, in digits, got true",
		"{header: X, classes: {'': 5}}":          `leave.classes[""]: the name of a class must be at most 128 characters of printable ASCII, got ""`,
		"{header: X, class: 1, classes: {a: 1}}": `leave.class: unknown field; the fields are header, classes`,
	} {
		_, err := policyfile.Parse("limits.yaml", []byte("policies:\n- {name: a, key: everyone, limits: 1/s,\n   leave: "+leave+"}"))
		require.ErrorContains(t, err, "limits.yaml:3:", leave)
		require.ErrorContains(t, err, "policies[0]."+want, leave)
	}
}

func TestWithLeave_RefusesNamesOfShares(t *testing.T) {
	zero := func(*http.Request) int64 { return 0 }
	require.PanicsWithValue(t, `policyfile: WithLeave: "20%" has a meaning of its own in files`, func() { policyfile.WithLeave("20%", zero) })
	require.PanicsWithValue(t, "policyfile: WithLeave: must not be given nil", func() { policyfile.WithLeave("a", nil) })
}

func TestNear_IsAShare(t *testing.T) {
	policies, err := policyfile.Parse("a.yaml", []byte("policies: [{name: a, key: everyone, limits: 9/s, near: 20%}, {name: b, key: everyone, limits: 9/s}]"))
	require.NoError(t, err)
	require.Equal(t, 20, policies[0].Near)
	require.Zero(t, policies[1].Near)
	for _, near := range []string{"20", "0%", "101%", "2.5%", "020%", "ours", "[20%]", "{}"} {
		_, err := policyfile.Parse("limits.yaml", []byte("policies:\n- {name: a, key: everyone, limits: 1/s,\n   near: "+near+"}"))
		require.ErrorContains(t, err, "limits.yaml:3:", near)
		require.ErrorContains(t, err, "policies[0].near: must be a share from 1% to 100%, in whole percent, got ", near)
	}
}
