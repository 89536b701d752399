package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A drawing is an SVG as a plot draws it.
type drawing struct {
	XMLName xml.Name `xml:"svg"`
	Width   float64  `xml:"width,attr"`
	Height  float64  `xml:"height,attr"`
	Title   string   `xml:"title"`
	Style   string   `xml:"style"`
	Texts   []label  `xml:"text"`
	Series  []drawn  `xml:"g"`
}

// drawn is a series.
type drawn struct {
	Class  string  `xml:"class,attr"`
	Texts  []label `xml:"text"`
	Paths  []path  `xml:"path"`
	Points []struct {
		X float64 `xml:"cx,attr"`
		Y float64 `xml:"cy,attr"`
	} `xml:"circle"`
	Bars []struct {
		Width float64 `xml:"width,attr"`
	} `xml:"rect"`
}

type label struct {
	X    float64 `xml:"x,attr"`
	Y    float64 `xml:"y,attr"`
	Text string  `xml:",chardata"`
}

type path struct {
	Class string `xml:"class,attr"`
	D     string `xml:"d,attr"`
}

// parse returns an SVG that is well-formed.
func parse(t *testing.T, svg []byte) (d drawing) {
	require.NoError(t, xml.Unmarshal(svg, &d))
	require.Positive(t, d.Height)
	require.Equal(t, 830., d.Width, "the width of a README")
	return d
}

func drawingOf(t *testing.T, p *Plot) drawing {
	svg, err := p.svg(somewhere)
	require.NoError(t, err)
	require.NotContains(t, string(svg), "NaN")
	require.NotContains(t, string(svg), "Inf")
	return parse(t, svg)
}

// labels returns the names and values of all series, in the order in which they are drawn.
func (d drawing) labels() (labels []string) {
	for _, s := range d.Series {
		labels = append(labels, s.Texts[0].Text+" "+s.Texts[1].Text)
	}
	return labels
}

func TestPlot_EachLineHasItsNameAndLastValueAtItsEnd(t *testing.T) {
	lines := example().Plots[0]
	d := drawingOf(t, &lines)
	require.Equal(t, "a <b>", d.Title)
	require.Equal(t, []string{"least 1", "short 30 at 1", "flat 30", "sash <1> 1"}, d.labels(), "sash is over the others")
	for _, s := range d.Series {
		last := s.Points[len(s.Points)-1]
		require.Equal(t, "lead", s.Paths[1].Class)
		require.Equal(t, fmt.Sprintf("M%g,%gL%g,%g", last.X, last.Y, s.Texts[0].X, s.Texts[0].Y), s.Paths[1].D)
		require.Equal(t, s.Texts[0].Y, s.Texts[1].Y)
	}
	require.Equal(t, "own first", d.Series[3].Class)
	require.Equal(t, "floor", d.Series[0].Class)
	require.NotEqual(t, d.Series[1].Class, d.Series[2].Class)
}

func TestPlot_LeavesOutWhatWasNotMeasured(t *testing.T) {
	p := &Plot{Places: []string{"1", "10", "100"}, Series: []Series{
		{"gap", Other, []float64{20, math.NaN(), 10}}, {"absent", Other, []float64{math.NaN(), math.Inf(1), 0}},
	}}
	d := drawingOf(t, p)
	require.Equal(t, []string{"gap 10"}, d.labels(), "of the last place")
	require.Len(t, d.Series[0].Points, 2)
	require.Less(t, d.Series[0].Points[0].Y, d.Series[0].Points[1].Y, "less is lower")

	bars := example().Plots[1]
	d = drawingOf(t, &bars)
	require.Equal(t, []string{"sash 1,000", "other 2,000"}, d.labels())
	require.Equal(t, d.Series[1].Bars[0].Width, 2*d.Series[0].Bars[0].Width)
}

// Lines of any values have labels within the picture that do not overlap, in the order of their values.
func TestPlot_LabelsDoNotOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		p := &Plot{Places: []string{"1", "2"}}
		for i := range 1 + random.IntN(18) {
			value := 100 * math.Pow(10, random.NormFloat64()*random.Float64())
			p.Series = append(p.Series, Series{fmt.Sprint(i), Other, []float64{50, value}})
		}
		d := drawingOf(t, p)
		slices.SortFunc(d.Series, func(a, b drawn) int { return cmp.Compare(a.Texts[0].Y, b.Texts[0].Y) })
		for i, s := range d.Series {
			require.GreaterOrEqual(t, s.Texts[0].Y, 40.)
			require.Less(t, s.Texts[0].Y, d.Height-40)
			if i > 0 {
				above := d.Series[i-1]
				require.GreaterOrEqual(t, s.Texts[0].Y-above.Texts[0].Y, 17.8)
				require.GreaterOrEqual(t, s.Points[1].Y, above.Points[1].Y)
			}
		}
	}
}

// A label stays at the end of its line where it has room.
func TestSpread_MovesLabelsNoFurtherThanItMust(t *testing.T) {
	for _, tt := range []struct{ wanted, want []float64 }{
		{[]float64{50, 10, 90}, []float64{50, 10, 90}},
		{[]float64{50, 52}, []float64{46, 56}},
		{[]float64{0, 0}, []float64{0, 10}},
		{[]float64{100, 99, 98}, []float64{100, 90, 80}},
		{[]float64{50, 52, 61}, []float64{44.3, 54.3, 64.3}},
		{[]float64{100, 100, 82}, []float64{90, 100, 80}},
	} {
		require.Equal(t, tt.want, spread(tt.wanted, 10, 0, 100), "%v", tt.wanted)
	}
	require.Equal(t, []float64{0, 5, 10}, spread([]float64{3, 4, 5}, 10, 0, 10), "there is no room")
}

func TestPlot_HasColoursForLightAndDark(t *testing.T) {
	lines := example().Plots[0]
	light, dark, found := strings.Cut(drawingOf(t, &lines).Style, "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for _, class := range []string{"text", ".paper", ".grid", ".axis", ".dot", ".own", ".floor", ".other0", ".other1", ".other2", ".other3", ".other4", ".other5"} {
		require.Contains(t, light, "\t"+class+" {")
		require.Contains(t, dark, "\t"+class+" {")
	}
	for _, s := range classes(make([]Series, 20)) {
		require.Contains(t, light, "\t."+s+" {", "every class has a colour")
	}
}

func TestPlot_TicksCanBeRead(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   []string
	}{
		{[]float64{9, 1725}, []string{"10", "20", "50", "100", "200", "500", "1,000", "2,000"}},
		{[]float64{30, 30}, []string{"10", "20", "50"}},
		{[]float64{20, 4e9}, []string{"100", "1,000", "10,000", "100,000", "1,000,000", "10,000,000", "100,000,000", "1,000,000,000"}},
	} {
		p := &Plot{Y: "ns", X: "keys", Places: []string{"1", "10M"}, Series: []Series{{"a", Other, tt.values}}}
		var ticks []string
		for _, text := range drawingOf(t, p).Texts {
			ticks = append(ticks, text.Text)
		}
		require.Equal(t, slices.Concat([]string{"ns"}, tt.want, []string{"10M", "1", "keys", "at 10M"}), ticks)
	}
}

func TestPlot_PlacesKeepTheirDistances(t *testing.T) {
	p := &Plot{Places: []string{"1", "1k", "1M"}, At: []float64{1, 1000, 1_000_000}, Series: []Series{{"a", Other, []float64{1, 2, 3}}}}
	points := drawingOf(t, p).Series[0].Points
	require.InDelta(t, points[2].X-points[1].X, points[1].X-points[0].X, 0.2)
	p.Places, p.At = []string{"1", "10", "1M"}, []float64{1, 10, 1_000_000}
	points = drawingOf(t, p).Series[0].Points
	require.InDelta(t, points[2].X-points[1].X, 5*(points[1].X-points[0].X), 1)
}

// Labels of places for which there is no room are left out.
func TestPlot_PlacesHaveRoom(t *testing.T) {
	p := &Plot{X: "of all calls"}
	var values []float64
	for i := range 30 {
		p.Places, values = append(p.Places, fmt.Sprintf("p99.99%02d", i)), append(values, 1)
	}
	p.Series = []Series{{"a", Other, values}}
	var places []label
	for _, text := range drawingOf(t, p).Texts {
		if strings.HasPrefix(text.Text, "p99.99") {
			places = append(places, text)
		}
	}
	require.Equal(t, "p99.9929", places[0].Text, "the last, whose value is shown")
	require.Greater(t, len(places), 5)
	for i := range len(places) - 1 {
		require.GreaterOrEqual(t, places[i].X-places[i+1].X, 60., "the width of a label")
	}
}
