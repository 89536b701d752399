package report

import (
	"bytes"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Plot shows values at named places on the x axis.
type Plot struct {
	Name   string // the part of the file's name after the experiment; may be empty
	Title  string
	X, Y   string
	Places []string
	Series []Series
	Bars   bool // bars from 0, not lines on a logarithmic scale
}

// A Series is one line, or the bars of one colour. It has a value for each place, which is
// NaN if there is none.
type Series struct {
	Name   string
	Values []float64
}

func (p *Plot) file(experiment string) string {
	if p.Name == "" {
		return experiment + ".svg"
	}
	return experiment + "-" + p.Name + ".svg"
}

// shows reports whether there is anything to draw. One place makes no line.
func (p *Plot) shows() bool {
	return (p.Bars || len(p.Places) > 1) && slices.ContainsFunc(p.Series, func(s Series) bool { return slices.ContainsFunc(s.Values, drawable) })
}

// drawable reports whether a logarithmic scale can show value. It cannot show NaN.
func drawable(value float64) bool { return value > 0 && !math.IsInf(value, 0) }

const width, height = 26 * vg.Centimeter, 13 * vg.Centimeter

// svg draws p.
func (p *Plot) svg(e Environment) ([]byte, error) {
	c := plot.New()
	c.Title.Text = p.Title + "\n" + e.String() + "\n" + e.Clock + "\n" + e.Command
	c.Title.TextStyle.Font.Size = vg.Points(9)
	c.X.Label.Text, c.Y.Label.Text = p.X, p.Y
	c.NominalX(p.Places...)
	c.X.Tick.Label.Font.Size, c.Legend.TextStyle.Font.Size = vg.Points(8), vg.Points(9)
	if len(p.Places) > 10 {
		c.X.Tick.Label.Font.Size = vg.Points(5.5)
	}
	c.Add(plotter.NewGrid())
	draw := p.lines
	if p.Bars {
		draw = p.bars
	}
	if err := draw(c); err != nil {
		return nil, err
	}
	c.X.Min = -0.5
	c.X.Max = float64(len(p.Places))*1.3 - 0.5 // with room for the legend
	// The legend is right of the lines, where there is room for a wider font.
	c.Legend.Top, c.Legend.Left, c.Legend.XOffs = true, true, width*0.77
	w, err := c.WriterTo(width, height, "svg")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Serif"), []byte("font-family:"+fonts)), err
}

// fonts are fonts of the same width as the font that labels are laid out for, and fallbacks.
const fonts = "Liberation Serif,Times New Roman,Times,serif"

func (p *Plot) lines(c *plot.Plot) error {
	for i, s := range p.Series {
		var points plotter.XYs
		for x, y := range s.Values {
			if drawable(y) {
				points = append(points, plotter.XY{X: float64(x), Y: y})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, dots.Color = plotutil.DarkColors[i%hues], plotutil.DarkColors[i%hues]
		line.Dashes = plotutil.Dashes(i / hues)
		dots.Shape, dots.Radius = plotutil.Shape(i), vg.Points(3)
		c.Add(line, dots)
		c.Legend.Add(s.Name, line, dots)
	}
	c.Y.Scale, c.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	// The scale spans whole decades, so that there are ticks even if all values are alike.
	c.Y.Min = math.Pow10(int(math.Floor(math.Log10(c.Y.Min))))
	c.Y.Max = math.Pow10(int(math.Floor(math.Log10(c.Y.Max))) + 1)
	return nil
}

func (p *Plot) bars(c *plot.Plot) error {
	room := width * 0.6 / vg.Length(len(p.Places))
	each := room * 0.8 / vg.Length(len(p.Series))
	for i, s := range p.Series {
		heights := plotter.Values(slices.Clone(s.Values))
		for j, h := range heights {
			if !drawable(h) {
				heights[j] = 0
			}
		}
		b, err := plotter.NewBarChart(heights, each)
		if err != nil {
			return err
		}
		b.Color, b.LineStyle = barColour(i), draw.LineStyle{}
		b.Offset = each * (vg.Length(i) - vg.Length(len(p.Series)-1)/2)
		c.Add(b)
		if len(p.Series) > 1 {
			c.Legend.Add(s.Name, b)
		}
	}
	c.Y.Min, c.Y.Max = 0, c.Y.Max*1.05
	return nil
}

// hues is the number of colours. Further lines are dashed, and further bars are pale.
var hues = len(plotutil.DarkColors)

func barColour(i int) color.Color {
	if i < hues {
		return plotutil.DarkColors[i]
	}
	return plotutil.SoftColors[i%len(plotutil.SoftColors)]
}
