package report

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// A Plot shows values at named places on the x axis, as lines on a logarithmic scale. Their names and last
// values stand at their ends.
type Plot struct {
	Name   string // the part of the file's name after the experiment; may be empty
	Title  string // for readers that do not see it
	X, Y   string
	Places []string
	At     []float64 // where the places are on a logarithmic x axis; nil if they have the same distance
	Series []Series
	Bars   bool                       // a bar from 0 for the first value of each series, not lines
	Format func(value float64) string // of values; nil for whole numbers
}

// A Series is one line or one bar. It has a value for each place, which is NaN if there is none.
type Series struct {
	Name   string
	Role   Role
	Values []float64
}

// A Role says how a series is drawn.
type Role int

const (
	Other Role = iota
	Own        // the first of these is drawn with a thick line
	Floor      // what decides nothing
)

func (p *Plot) file(experiment string) string {
	if p.Name == "" {
		return experiment + ".svg"
	}
	return experiment + "-" + p.Name + ".svg"
}

// shows reports whether there is anything to draw. One place makes no line.
func (p *Plot) shows() bool { return (p.Bars || len(p.Places) > 1) && len(p.drawn()) > 0 }

// drawn returns the series that have a value.
func (p *Plot) drawn() (drawn []Series) {
	for _, s := range p.Series {
		if slices.ContainsFunc(s.Values, drawable) {
			drawn = append(drawn, s)
		}
	}
	return drawn
}

// drawable reports whether a logarithmic scale can show value. It cannot show NaN.
func drawable(value float64) bool { return value > 0 && !math.IsInf(value, 0) }

// text returns a value as text.
func (p *Plot) text(value float64) string {
	if p.Format == nil {
		return humanize.Comma(int64(math.Round(value)))
	}
	return p.Format(value)
}

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Funcs(template.FuncMap{"xml": escaped}).Parse(plotText))

// A picture is a Plot with the places of all that it shows. Lengths are in pixels.
type picture struct {
	Title, Source string
	X, Y          string
	Last          string // the place of the values at the ends of lines, unless they name another
	Width, Height float64
	Left, Right   float64 // of the grid
	Top, Bottom   float64 // of the grid
	LabelsAt      float64 // where the labels of lines begin
	XTicks        []tick
	YTicks        []tick
	Lines         []line
	BarHeight     float64
	Bars          []bar
}

// A tick is a line of the grid, at X or at Y.
type tick struct {
	At    float64
	Label string
}

type point struct{ X, Y float64 }

// A line is a series, and its label.
type line struct {
	Class       string
	Path        string
	Dots        []point
	End         point
	Name, Value string
	LabelY      float64
}

// A bar is a series, and its label.
type bar struct {
	Class       string
	Name, Value string
	Y, Top      float64 // of its middle, and of its upper edge
	Length, End float64
}

const (
	width      = 830. // as wide as GitHub shows a page
	height     = 430.
	lineHeight = 18. // of labels
	barHeight  = 16.
	barRow     = 26.
)

// svg draws p. Its colours follow the reader's colour scheme.
func (p *Plot) svg(e Environment) ([]byte, error) {
	c := picture{
		Title: p.Title, Source: e.String() + ". " + e.Clock + ". " + e.Command,
		X: p.X, Y: p.Y, Width: width, Height: height, Left: 66, Right: 630, Top: 40, Bottom: height - 54, LabelsAt: 654,
	}
	if p.Bars {
		p.bars(&c)
	} else {
		p.lines(&c)
	}
	var b bytes.Buffer
	err := plotTemplate.Execute(&b, c)
	return b.Bytes(), err
}

// A scale is logarithmic: it has the values first and last at the positions from and to.
type scale struct{ first, last, from, to float64 }

func (s scale) at(value float64) float64 {
	return rounded(s.from + (s.to-s.from)*math.Log(value/s.first)/math.Log(s.last/s.first))
}

func rounded(length float64) float64 { return math.Round(length*10) / 10 }

func (p *Plot) lines(c *picture) {
	c.Last = p.Places[len(p.Places)-1]
	x, y := p.xs(c), p.scale(c)
	c.XTicks, c.YTicks = p.placeTicks(x), p.valueTicks(y)
	var ends []float64
	for i, class := range classes(p.drawn()) {
		s := p.drawn()[i]
		l := line{Class: class, Name: s.Name}
		for place, value := range s.Values {
			if drawable(value) {
				l.End = point{x[place], y.at(value)}
				l.Dots = append(l.Dots, l.End)
				if l.Value = p.text(value); p.Places[place] != c.Last {
					l.Value += " at " + p.Places[place]
				}
			}
		}
		l.Path = "M"
		for i, dot := range l.Dots {
			if i > 0 {
				l.Path += "L"
			}
			l.Path += fmt.Sprintf("%g,%g", dot.X, dot.Y)
		}
		c.Lines, ends = append(c.Lines, l), append(ends, l.End.Y)
	}
	for i, at := range spread(ends, lineHeight, c.Top, c.Bottom) {
		c.Lines[i].LabelY = at
	}
	// Own lines are drawn last, over the others, and the thick one over all.
	slices.Reverse(c.Lines)
	slices.SortStableFunc(c.Lines, func(a, b line) int { return strings.Count(a.Class, "own") - strings.Count(b.Class, "own") })
}

// classes returns the classes of each series, which have the colours.
func classes(all []Series) (classes []string) {
	others, own := 0, 0
	for _, s := range all {
		switch s.Role {
		case Own:
			class := "own"
			if own == 0 {
				class += " first"
			}
			own++
			classes = append(classes, class)
		case Floor:
			classes = append(classes, "floor")
		default:
			classes = append(classes, fmt.Sprintf("other%d", others%6))
			others++
		}
	}
	return classes
}

// xs returns the positions of the places.
func (p *Plot) xs(c *picture) (xs []float64) {
	const inset = 16
	left, right := c.Left+inset, c.Right-inset
	for i := range p.Places {
		if p.At == nil {
			xs = append(xs, rounded(left+(right-left)*float64(i)/float64(len(p.Places)-1)))
		} else {
			xs = append(xs, scale{slices.Min(p.At), slices.Max(p.At), left, right}.at(p.At[i]))
		}
	}
	return xs
}

// scale returns the scale of values, which spans at least a factor of ten.
func (p *Plot) scale(c *picture) scale {
	least, most := math.Inf(1), 0.
	for _, s := range p.drawn() {
		for _, value := range s.Values {
			if drawable(value) {
				least, most = min(least, value), max(most, value)
			}
		}
	}
	least, most = least/1.2, most*1.2
	if lack := 10 / (most / least); lack > 1 {
		least, most = least/math.Sqrt(lack), most*math.Sqrt(lack)
	}
	return scale{least, most, c.Bottom, c.Top}
}

// valueTicks returns a tick for each power of ten, and for 2 and 5 times it if there is room.
func (p *Plot) valueTicks(y scale) (ticks []tick) {
	steps := []float64{1, 2, 5}
	if y.last/y.first > 2e4 {
		steps = []float64{1}
	}
	for power := math.Pow10(int(math.Floor(math.Log10(y.first)))); power <= y.last; power *= 10 {
		for _, step := range steps {
			if value := step * power; y.first <= value && value <= y.last {
				ticks = append(ticks, tick{y.at(value), p.text(value)})
			}
		}
	}
	return ticks
}

// placeTicks returns a tick for each place. Labels for which there is no room are left out, and never the last.
func (p *Plot) placeTicks(xs []float64) (ticks []tick) {
	free := math.Inf(1) // the end of the room for a label
	for i := len(xs) - 1; i >= 0; i-- {
		label, half := p.Places[i], 4*float64(utf8.RuneCountInString(p.Places[i]))
		if xs[i]+half > free {
			label = ""
		} else {
			free = xs[i] - half
		}
		ticks = append(ticks, tick{xs[i], label})
	}
	return ticks
}

// spread returns positions from top to bottom that are at least distance apart, if there is room, in the order
// of those wanted and as near to them as can be.
func spread(wanted []float64, distance, top, bottom float64) []float64 {
	if n := float64(len(wanted) - 1); n*distance > bottom-top {
		distance = (bottom - top) / n
	}
	order := make([]int, len(wanted))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if wanted[a] < wanted[b] {
			return -1
		}
		return 1
	})
	// A block is labels that touch each other. It lies where the mean of their distances is 0.
	type block struct{ sum, n, at float64 }
	var blocks []block
	place := func(b *block) {
		b.at = min(max(b.sum/b.n, top), bottom-(b.n-1)*distance)
	}
	for _, i := range order {
		b := block{sum: wanted[i], n: 1}
		place(&b)
		for len(blocks) > 0 {
			above := blocks[len(blocks)-1]
			if above.at+above.n*distance <= b.at {
				break
			}
			b = block{sum: above.sum + b.sum - above.n*b.n*distance, n: above.n + b.n}
			place(&b)
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	positions := make([]float64, 0, len(wanted))
	for _, b := range blocks {
		for k := range int(b.n) {
			positions = append(positions, rounded(b.at+float64(k)*distance))
		}
	}
	spread := make([]float64, len(wanted))
	for k, i := range order {
		spread[i] = positions[k]
	}
	return spread
}

func (p *Plot) bars(c *picture) {
	all := slices.DeleteFunc(p.drawn(), func(s Series) bool { return !drawable(s.Values[0]) })
	longest := 0.
	for _, s := range all {
		longest = max(longest, s.Values[0])
	}
	c.Left, c.BarHeight, c.Height = 150, barHeight, c.Top+barRow*float64(len(all))+8
	for i, class := range classes(all) {
		s := all[i]
		b := bar{Class: class, Name: s.Name, Value: p.text(s.Values[0]), Y: c.Top + barRow*float64(i) + barHeight/2, Top: c.Top + barRow*float64(i)}
		b.Length = rounded((width - 90 - c.Left) * s.Values[0] / longest)
		b.End = c.Left + b.Length
		c.Bars = append(c.Bars, b)
	}
}

// escaped returns text for XML.
func escaped(text string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(text))
	return b.String(), err
}
