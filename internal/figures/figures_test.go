package figures

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for document, want := range map[string]string{
		"no figures": "",
		"a <!-- figures one -->1 ns<!-- /figures --> b":         "",
		"<!-- figures one -->\n\n| 1 ns |\n\n<!-- /figures -->": "",
		"<!-- a comment -->":     "",
		"\n<!-- figures one -->": "line 2: figures one do not end",
		"<!-- /figures -->":      "line 1: no figures end here",
		"<!-- figures one --><!-- figures two -->x<!-- /figures -->": "line 1: figures two are in figures one",
		"<!-- figures one -->1<!-- end of figures -->":               "line 1: <!-- end of figures --> is no marker",
		"<!-- figures -->\n": "<!-- figures --> is no marker",
		"<!-- figures one -->1<!-- /figures --> <!-- figures two -->2<!-- /figures -->": "",
	} {
		_, err := Parse(document)
		if want == "" {
			require.NoError(t, err, document)
		} else {
			require.ErrorContains(t, err, want, document)
		}
	}
}

func TestFill_ChangesWhatStandsBetweenMarkers(t *testing.T) {
	const document = "A <!-- figures one -->1 ns<!-- /figures --> b <!-- figures two -->2 ns<!-- /figures -->.\n" +
		"<!-- figures table -->\n<!-- /figures -->\n<!-- figures of others -->\n[7 ns](https://x)\n<!-- /figures -->\n"
	values := map[string]string{"one": "3 ns", "two": "40 µs", "table": "| a |\n|---|\n| 5 |"}
	filled, err := Fill(document, values)
	require.NoError(t, err)
	require.Equal(t, "A <!-- figures one -->3 ns<!-- /figures --> b <!-- figures two -->40 µs<!-- /figures -->.\n"+
		"<!-- figures table -->\n\n| a |\n|---|\n| 5 |\n\n<!-- /figures -->\n<!-- figures of others -->\n[7 ns](https://x)\n<!-- /figures -->\n", filled)
	again, err := Fill(filled, values)
	require.NoError(t, err)
	require.Equal(t, filled, again)

	_, err = Fill(document, map[string]string{"one": "3\nns", "two": ""})
	require.ErrorContains(t, err, "line 2: nothing measures figures table")
	require.ErrorContains(t, err, "line 1: figures one are more than a line")
}

func TestOutside(t *testing.T) {
	for document, want := range map[string]string{
		"A call takes <!-- figures one -->29 ns<!-- /figures -->.": "",
		"100 requests a minute, 51 bytes, `29ns`":                  "",
		"1234567 keys, twice as long, defaced, `3d 20a19`":         "",
		"```go\nd := 29 ns\n```\n":                                 "",
		"every 100 ms":                                             "", // allowed
		"`Allow` takes 30 ns.":                                     "30 ns",
		"A call takes 29 ns.":                                      "29 ns",
		"x\ny 1.5 µs":                                              "line 2",
		"late by 34 ms":                                            "34 ms",
		"| 0.32 s |":                                               "0.32 s",
		"775 k decisions/s":                                        "775 k decisions/s",
		"2.5 times as long":                                        "2.5 times as long",
		"a ratio of 3.1 ×":                                         "3.1 ×",
		"at commit 0f9976f":                                        "commit 0f9976f",
		"since `de13910`":                                          "commit de13910",
		"a clone of 3d20a19, on two cores":                         "commit 3d20a19",
		"| 3d20a19 |":                                              "commit 3d20a19",
		"commit 1234567":                                           "commit 1234567",
		"a call takes 29\nns":                                      "29 ns",
		"x `29 ns` y":                                              "29 ns",
		"**29** ns":                                                "29** ns",
		"29\u00a0ns":                                               "ns",
		"29 \u03bcs":                                               "29 \u03bcs", // the Greek letter, not the sign
		"29 nsec":                                                  "29 nsec",
		"1.5 microsecs":                                            "1.5 microsecs",
		"34 millis":                                                "34 millis",
		"twice as fast as others":                                  "twice as fast",
		"takes half the time":                                      "half the time",
		"three times\nfaster":                                      "three times faster",
		"3x faster":                                                "3x faster",
		"40 % faster":                                              "40 % faster",
		"five million decisions a second":                          "million decisions a second",
		"2 million per second":                                     "million per second",
		"12 M/s":                                                   "12 M/s",
		"800 k calls/s":                                            "800 k calls/s",
	} {
		unused := map[string]bool{"every 100 ms": true}
		err := errors.Join(Outside(document, []string{"every 100 ms"}, unused)...)
		if want == "" {
			require.NoError(t, err, document)
		} else {
			require.ErrorContains(t, err, want, document)
		}
		require.Equal(t, document != "every 100 ms", unused["every 100 ms"])
	}
}

func TestInComment(t *testing.T) {
	unused := map[string]bool{"ticks of 1 ns": true}
	require.Equal(t, []string{"35 ns", "2.5 µs", "twice as fast"}, InComment("ticks of 1 ns, some 35 ns, 2.5 µs, 250 ms, twice as fast", []string{"ticks of 1 ns"}, unused))
	require.Empty(t, unused)
}

func TestAgree(t *testing.T) {
	const page = "<!-- figures environment -->commit 0f9976f<!-- /figures --> <!-- figures one -->1 ns<!-- /figures -->"
	for name, c := range map[string]struct{ other, want string }{
		"the same":         {"<!-- figures one -->1 ns<!-- /figures -->", ""},
		"another figure":   {"<!-- figures one -->2 ns<!-- /figures -->", "other.md and page.md: figures one differ"},
		"not on the page":  {"<!-- figures two -->2 ns<!-- /figures -->", "other.md: figures two are not in page.md"},
		"another commit":   {"<!-- figures one -->1 ns<!-- /figures --><!-- figures two -->commit 1c2b11d<!-- /figures -->", "the figures name 2 commits"},
		"a marker is open": {"<!-- figures one -->", "other.md: line 1: figures one do not end"},
		"empty":            {"<!-- figures one --><!-- /figures -->", "there are no figures one"},
		"others":           {"<!-- figures of others -->[7 ns](https://x)<!-- /figures -->", ""},
		"others, unnamed":  {"<!-- figures of others -->7 ns<!-- /figures -->", "have no link"},
	} {
		err := errors.Join(Agree("page.md", map[string]string{"page.md": page, "other.md": c.other})...)
		if c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
		}
	}
	require.ErrorContains(t, errors.Join(Agree("page.md", map[string]string{"page.md": "none"})...), "name 0 commits")
}
