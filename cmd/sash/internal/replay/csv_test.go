package replay

import (
	"strings"
	"testing"

	"github.com/seed-30da4c49/sash/internal/command"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// calls are the columns of most CSV in these tests.
func calls(t *testing.T) *traffic.Settings {
	estimate, err := traffic.ParseSum("in")
	require.NoError(t, err)
	cost, err := traffic.ParseSum("in+out")
	require.NoError(t, err)
	key, err := traffic.ParseKey("who")
	require.NoError(t, err)
	return &traffic.Settings{Time: "when", Key: key, Estimate: estimate, Cost: cost}
}

func TestCSV_SameRowsHoweverTheyArrive(t *testing.T) {
	const second = "1970-01-01 00:00:01"
	tests := []struct{ name, content string }{
		{"plain", "when,who,in,out\n" + second + ",a,2,3\n" + second + ".5,b,4,0\n"},
		{"no newline at the end", "when,who,in,out\n" + second + ",a,2,3\n" + second + ".5,b,4,0"},
		{"lines of a PC", "when,who,in,out\r\n" + second + ",a,2,3\r\n" + second + ".5,b,4,0\r\n"},
		{"as a spreadsheet writes it", "\ufeffwhen,who,in,out\r\n" + second + ",a,2,3\r\n" + second + ".5,b,4,0\r\n"},
		{"quoted", `"when","who","in","out"` + "\n" + `"` + second + `","a","2","3"` + "\n" + `"` + second + `,5",b,4,0`},
		{"spaces after commas", "when, who, in, out\n" + second + ", a, 2, 3\n" + second + `.5, "b", 4, 0`},
		{"blank lines", "\nwhen,who,in,out\n\n" + second + ",a,2,3\n \n" + second + ".5,b,4,0\n\n"},
		{"other columns and another order", "out,x,in,when,who\n3,,2," + second + ",a\n0,,4," + second + ".5,b\n"},
		{"out of order", "when,who,in,out\n" + second + ".5,b,4,0\n" + second + ",a,2,3\n"},
		{"gzip", string(zipped(t, "when,who,in,out\n"+second+",a,2,3\n"+second+".5,b,4,0\n"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := readWith(t, calls(t), tt.content, "-")
			assert.Empty(t, tr.Faults)
			assert.Equal(t, []string{"1000000 a", "1500000 b"}, happened(tr))
			require.Len(t, tr.Events, 2)
			assert.Equal(t, traffic.Charge{Asked: 2, Cost: 5}, tr.Events[0].Charge)
			assert.Equal(t, traffic.Charge{Asked: 4, Cost: 4}, tr.Events[1].Charge)
			assert.EqualValues(t, 1, tr.Headings)
		})
	}
}

func TestCSV_EveryFileHasItsHeader(t *testing.T) {
	first := file(t, "one.csv", []byte("when,who,in,out\n1970-01-01 00:00:01,a,1,0\n1970-01-01 00:00:03,b,3,0\n"))
	second := file(t, "two.csv", []byte("who,when,out,in\nc,1970-01-01 00:00:02,0,2\n"))
	tr := readWith(t, calls(t), "", first, second)
	assert.Equal(t, []string{"1000000 a", "2000000 c", "3000000 b"}, happened(tr))
	for i, e := range tr.Events {
		assert.EqualValues(t, i+1, e.Cost, "the charge of another event")
	}
	assert.EqualValues(t, 2, tr.Headings)
	reports := invoke("", "-json", "-each", "-limit", "2/s", "-time", "when", "-cost", "in", first, second).decode(t)
	require.Len(t, reports, 2)
	assert.EqualValues(t, 4, reports[0].Limits[0].Units.Asked)
	assert.EqualValues(t, 2, reports[1].Limits[0].Units.Asked)
}

func TestCSV_UnreadableLines(t *testing.T) {
	const when = "1970-01-01 00:00:01"
	tests := []struct{ name, line, why string }{
		{"no number", when + ",a,x,1", `in "x" is not a whole number of 64 bits`},
		{"nothing for a number", when + ",a,,1", `in "" is not a whole number of 64 bits`},
		{"half a token", when + ",a,1.5,1", `in "1.5" is not a whole number of 64 bits`},
		{"past 64 bits", when + ",a,1,9223372036854775808", `out "9223372036854775808" is not a whole number of 64 bits`},
		{"negative", when + ",a,1,-1", "out -1 is negative"},
		{"a sum past 64 bits", when + ",a,9223372036854775807,1", "in+out is more than 64 bits hold"},
		{"all of them past 64 bits", when + ",a,1,4611686018427387910", "with this line all costs add up to more than 64 bits hold"},
		{"with its estimate past 64 bits", when + ",a,9223372036854775807,0", "with this line all costs"},
		{"no time", ",a,1,1", `time "" is not like 2006-01-02 15:04:05.999`},
		{"a time of another kind", "17 May 2015 10:05:03,a,1,1", `time "17 May 2015 10:05:03" is not like`},
		{"a time out of reach", "2263-01-01 00:00:00,a,1,1", `time "2263-01-01 00:00:00" is outside the years`},
		{"too few columns", when + ",a,1", "3 columns, the header has 4"},
		{"too many columns", when + ",a,1,1,1", "5 columns, the header has 4"},
		{"a quote never closed", when + `,"a,1,1`, `extraneous or missing " in quoted-field`},
		{"a quote inside", when + `,a"b,1,1`, `bare " in non-quoted-field`},
		{"the header again", "when,who,in,out", `time "when" is not like`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The lines after it are read as if it were not there.
			content := "when,who,in,out\n" + when + ",a,1,4611686018427387900\n" + tt.line + "\n" + when + ",b,2,3\n"
			tr := readWith(t, calls(t), content, "-")
			require.Len(t, tr.Faults, 1)
			assert.EqualValues(t, 3, tr.Faults[0].Line)
			assert.True(t, strings.HasPrefix(tr.Faults[0].Why, tt.why), tr.Faults[0].Why)
			require.Len(t, tr.Events, 2)
			assert.Equal(t, traffic.Charge{Asked: 2, Cost: 5}, tr.Events[1].Charge)
		})
	}
}

func TestCSV_ColumnsThatFlagsNameAndTheHeaderHasNot(t *testing.T) {
	args := []string{"-limit", "1/s", "-time", "when", "-key", "who,where", "-estimate", "in", "-cost", "in+out"}
	tests := []struct {
		name, header string
		stderr       []string // all lines of it, but for the advice
	}{
		{"several", "When,who,in", []string{
			`-time: - has no column "when", its header is "When,who,in"`,
			`-key: - has no column "where", its header is "When,who,in"`,
			`-cost: - has no column "out", its header is "When,who,in"`,
		}},
		{"of the estimate", "when,who,where,out", []string{
			`-cost: - has no column "in", its header is "when,who,where,out"`,
			`-estimate: - has no column "in", its header is "when,who,where,out"`,
		}},
		{"twice", "when,who,where,in,out,who", []string{`-key: - has two columns "who", its header is "when,who,where,in,out,who"`}},
		{"a log", clf, []string{`-time when: - is no CSV, its line 1 is "192.0.2.1 - frank`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(tt.header+"\n1970-01-01 00:00:01,a,b,1,2\n", args...)
			assert.Equal(t, command.Failed, got.status)
			assert.Empty(t, got.stdout)
			said := strings.Split(strings.TrimSpace(got.stderr), "\n")
			require.Len(t, said, len(tt.stderr), got.stderr)
			for i, want := range tt.stderr {
				assert.Contains(t, said[i], want)
			}
		})
	}
	// A line that is not read may lack them.
	got := invoke("when,in\n1970-01-01 00:00:01,1\n", "-limit", "1/s", "-time", "when", "-cost", "in")
	assert.Equal(t, command.OK, got.status, got.stderr)
}

func TestCSV_Keys(t *testing.T) {
	const content = "when,model,user\n" +
		"1970-01-01 00:00:01,big,Jane Doe\n" +
		"1970-01-01 00:00:02,big,joe\n" +
		"1970-01-01 00:00:03,small,joe\n" +
		"1970-01-01 00:00:04,small,\n"
	tests := []struct {
		args    []string
		key     string
		clients []string // of each event
	}{
		{nil, "", []string{"all", "all", "all", "all"}},
		{[]string{"-key", "model"}, "model", []string{"big", "big", "small", "small"}},
		{[]string{"-key", "user, model"}, "user,model", []string{`"Jane Doe" big`, "joe big", "joe small", "- small"}},
	}
	for _, tt := range tests {
		// The key may come before the flag that makes it one of columns.
		o, err := parseArgs(append(tt.args, "-limit", "1/s", "-time", "when"))
		require.NoError(t, err)
		tr := readWith(t, &o.Settings, content, "-")
		var clients []string
		for _, e := range tr.Events {
			clients = append(clients, tr.Clients[e.Client])
			assert.Equal(t, traffic.Charge{Asked: 1, Cost: 1}, e.Charge, "it has no cost")
		}
		assert.Equal(t, tt.clients, clients)
		assert.Equal(t, tt.key, tr.Key.String())
	}
	assert.Contains(t, invoke(content, "-limit", "1/s", "-time", "when").stdout, "-: 4 events by one client, as no -key tells any apart\n")
}
