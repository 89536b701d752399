package suggest

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"text/template"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
)

//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Funcs(template.FuncMap{"xml": escaped}).Parse(pictureText))

// A picture shows, for each window, the share of clients that a limit denies, over its Count.
// Both scales are logarithmic. Lengths are in pixels.
type picture struct {
	Title         string
	Source, Times string
	Width, Height int
	Left, Right   float64 // of each panel
	XTicks        []tick
	Axis          float64 // where the labels of the x axis are
	XLabel        string
	Panels        []panel
}

// A panel is the part of a picture for one window.
type panel struct {
	Title             string
	Top, Bottom       float64
	YTicks            []tick
	Area, Line        string // paths
	Candidates        []mark
	Suggested         *mark
	Anchor            string  // of the suggestion's label
	LabelX            float64 // of the suggestion's label
	Label, LabelBelow string
	TitleY            float64
}

// A tick is a line of the grid, at X or at Y, with labels on one end or both.
type tick struct {
	At          float64
	Label, Name string
}

// A mark is the place of a candidate, and a text on it.
type mark struct {
	X, Y  float64
	Title string
}

const (
	pictureWidth               = 880
	panelLeft, panelRight      = 76., 824.
	panelHeight, panelDistance = 170., 252.
	firstPanel                 = 136.
	labelWidth                 = 370. // of the longest label of a suggestion
)

// draw writes the SVG of the report.
func (r *report) draw(w io.Writer) error {
	p := picture{
		Title:  "What would a limit deny?",
		Source: clipped(r.Headline()),
		Times:  r.Times(),
		Width:  pictureWidth,
		Left:   panelLeft, Right: panelRight,
		XLabel: fmt.Sprintf("Count of a limit, in %s per window", r.Unit),
	}
	x := r.xScale()
	for i := range r.Windows {
		top := firstPanel + float64(i)*panelDistance
		p.Panels = append(p.Panels, r.Windows[i].panel(x, scale{1, r.Windows[i].leastShare(), top, top + panelHeight}))
	}
	p.XTicks = x.countTicks()
	p.Axis = firstPanel + float64(len(r.Windows)-1)*panelDistance + panelHeight
	p.Height = int(p.Axis) + 72
	var b bytes.Buffer
	if err := pictureTemplate.Execute(&b, p); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

// A scale is logarithmic: it has the values first and last at the positions from and to.
type scale struct{ first, last, from, to float64 }

func (s scale) at(value float64) float64 {
	at := s.from + (s.to-s.from)*math.Log(value/s.first)/math.Log(s.last/s.first)
	return math.Round(at*10) / 10
}

// xScale returns the scale of counts, which all panels share. It begins at 1, and ends after
// the last candidate of all windows.
func (r *report) xScale() scale {
	last := int64(10)
	for _, v := range r.Windows {
		last = max(last, v.Max, v.Candidates[len(v.Candidates)-1].Limit.Count)
	}
	return scale{1, float64(last) * 1.05, panelLeft, panelRight}
}

// countTicks returns a tick for each power of ten, and for 2 and 5 times it if there is room.
func (s scale) countTicks() (ticks []tick) {
	for power := 1.; power <= s.last; power *= 10 {
		ticks = append(ticks, tick{At: s.at(power), Label: humanize.Comma(int64(power))})
		for _, n := range []float64{2 * power, 5 * power} {
			if n <= s.last && s.last < 1e6 {
				ticks = append(ticks, tick{At: s.at(n), Label: humanize.Comma(int64(n))})
			}
		}
	}
	return ticks
}

// leastShare returns the share at the bottom of the panel: a power of ten below the share of one
// client.
func (v *windowReport) leastShare() float64 {
	return math.Pow10(-max(1, int(math.Floor(math.Log10(float64(len(v.distribution)))))+1))
}

// shareTicks returns a tick for each power of ten.
func shareTicks(y scale) (ticks []tick) {
	for i := 0; ; i++ {
		value := math.Pow10(-i)
		if value < y.last*0.99 {
			return ticks
		}
		t := tick{At: y.at(value), Label: fmt.Sprintf("%.*f%%", max(0, i-2), 100*value)}
		if i > 0 {
			t.Name = fmt.Sprintf("p%.*f", max(0, i-2), 100-100*value)
		}
		ticks = append(ticks, t)
	}
}

// panel draws one window.
func (v *windowReport) panel(x, y scale) panel {
	p := panel{Title: "in any " + output.Short(v.window), TitleY: y.from - 30, Top: y.from, Bottom: y.to, YTicks: shareTicks(y)}
	p.Line = v.curve(x, y)
	p.Area = fmt.Sprintf("%sL%g,%gZ", p.Line, x.from, y.to)
	for _, c := range v.Candidates {
		m := mark{x.at(float64(c.Limit.Count)), v.height(c.ClientsShare, y), c.says()}
		if s := v.Suggested; s != nil && s.Limit == c.Limit {
			p.label(m, s)
			continue
		}
		p.Candidates = append(p.Candidates, m)
	}
	if v.Suggested == nil {
		p.Anchor, p.LabelX, p.Label, p.LabelBelow = "end", x.to, "no suggestion", ""
	}
	return p
}

// label marks the suggestion. Its text is on the right, where the curve is low, if there is room.
func (p *panel) label(m mark, s *suggestion) {
	p.Suggested = &m
	p.Anchor, p.LabelX = "start", m.X+8
	if m.X > panelRight-labelWidth {
		p.Anchor, p.LabelX = "end", m.X-8
	}
	p.Label, p.LabelBelow = "suggested: "+rate(s.Limit), s.effect()
}

// says returns the candidate and its effect, for a tooltip.
func (c *candidate) says() string { return rate(c.Limit) + ": " + c.effect() }

// effect says what the candidate denies.
func (c *candidate) effect() string {
	if c.Clients == 0 {
		return "would have denied no client"
	}
	return fmt.Sprintf("would have denied %s (%s), %s of events", output.Count(int64(c.Clients), "client"), output.Percent(c.ClientsShare), output.Percent(c.DeniedShare))
}

// height returns the position of a share. Nothing is at the bottom, which a logarithmic scale
// does not have.
func (v *windowReport) height(share float64, y scale) float64 {
	if share <= 0 {
		return y.to
	}
	return y.at(share)
}

// curve returns the path of the share of clients whose busiest window holds more than a
// count. It is a step at each value. Values that are less than a fifth of a pixel apart are one
// step.
func (v *windowReport) curve(x, y scale) string {
	var b strings.Builder
	n := len(v.distribution)
	fmt.Fprintf(&b, "M%g,%g", x.from, y.at(1))
	drawn := math.Inf(-1)
	for i := 0; i < n; {
		value := v.distribution[i]
		next := n - v.distribution.above(value)
		at := x.from
		if value > 0 {
			at = x.at(float64(value))
		}
		if i = next; at-drawn < 0.2 && next < n {
			continue
		}
		drawn = at
		fmt.Fprintf(&b, "H%gV%g", at, v.height(output.Share(int64(n-next), int64(n)), y))
	}
	return b.String()
}

// clipped returns text with its middle left out if it is too long for a line.
func clipped(text string) string {
	const most, end = 120, 70
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-end]) + "…" + string(runes[len(runes)-end:])
	}
	return text
}

// escaped returns text for XML.
func escaped(text string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(text))
	return b.String(), err
}
