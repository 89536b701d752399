package testnames

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIn_ListsWhatIsBuilt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go":           "package a; func TestInNoTestFile() {}",
		"a_test.go":      "package a; func TestOne() {}; func Testless() {}; func Test() {}; func TestMain() {}; func (T) TestTwo() {}; type T int; var TestVar int",
		"b_test.go":      "package a_test; func BenchmarkB() {}; func FuzzF() {}; func ExampleE() {}; func helper() {}",
		"tagged_test.go": "//go:build tagged\n\npackage a; func TestTagged() {}",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	all, err := In(dir)
	require.NoError(t, err)
	require.Equal(t, Functions{
		"Test": {"TestOne", "Test"}, "Benchmark": {"BenchmarkB"}, "Fuzz": {"FuzzF"}, "Example": {"ExampleE"},
	}, all)
	require.Equal(t, []string{"TestOne", "Test", "FuzzF", "ExampleE"}, all.Run())

	all, err = In(dir, "tagged")
	require.NoError(t, err)
	require.Contains(t, all.Run(), "TestTagged")

	_, err = In(filepath.Join(dir, "nowhere"))
	require.Error(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a; func"), 0o600))
	_, err = In(dir)
	require.Error(t, err)
}

func TestAdd_TakesFunctionsOfAFile(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package a; func FuzzÄ() {}; func Fuzzy() {}", 0)
	require.NoError(t, err)
	all := make(Functions)
	all.Add(file)
	require.Equal(t, Functions{"Fuzz": {"FuzzÄ"}}, all)
}

func TestUnmatched_NamesEachAlternative(t *testing.T) {
	names := []string{"TestA", "TestB_Of", "FuzzC"}
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"", nil},
		{".", nil},
		{"A|B", nil},
		{"^TestA$|B_", nil},
		{"TestA|Gone|Of|Lost", []string{"Gone", "Lost"}},
		{`A\|B`, []string{`A\|B`}},
		{"Test(X|B)|F", nil},
		{"Test(X|Y)|F", []string{"Test(X|Y)"}},
		{"Test[A|Z]|[/]", []string{"[/]"}},
		{"TestA/of this|or that", []string{"or that"}},
		{"^$", []string{"^$"}},
	} {
		got, err := Unmatched(c.pattern, names)
		require.NoError(t, err, c.pattern)
		require.Equal(t, c.want, got, c.pattern)
	}
	_, err := Unmatched("A|(", names)
	require.Error(t, err)
}
