package bench

import (
	"bytes"
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"gwinit/internal/gwctl/bench/stats"
)

const (
	plotWidth  = 7 * vg.Inch
	plotHeight = 3.5 * vg.Inch
)

var (
	blue  = color.RGBA{R: 0x1d, G: 0x4e, B: 0xd8, A: 0xff}
	red   = color.RGBA{R: 0xc2, G: 0x41, B: 0x0c, A: 0xff}
	grey  = color.RGBA{R: 0x76, G: 0x76, B: 0x76, A: 0xff}
	shade = color.NRGBA{R: 0x1d, G: 0x4e, B: 0xd8, A: 0x22}
)

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.BackgroundColor = color.White
	p.Add(plotter.NewGrid())
	return p
}

// write draws it as SVG.
func write(path string, p *plot.Plot) error {
	c := vgsvg.New(plotWidth, plotHeight)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	return replace(path, b.Bytes())
}

// level is a horizontal line.
func level(p *plot.Plot, from, to, y float64, c color.Color, dashed bool) error {
	l, err := plotter.NewLine(plotter.XYs{{X: from, Y: y}, {X: to, Y: y}})
	if err != nil {
		return err
	}
	l.Color = c
	if dashed {
		l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	p.Add(l)
	return nil
}

// dots are values that belong to each other in that order.
func dots(p *plot.Plot, at, v []float64, c color.Color) error {
	xys := make(plotter.XYs, len(v))
	for i := range v {
		xys[i] = plotter.XY{X: at[i], Y: v[i]}
	}
	l, s, err := plotter.NewLinePoints(xys)
	if err != nil {
		return err
	}
	l.Color = c
	l.Width = vg.Points(0.5)
	s.Shape, s.Color, s.Radius = draw.CircleGlyph{}, c, vg.Points(3)
	p.Add(l, s)
	return nil
}

// plotRelease draws each phase over time, and all of them as boxes.
func plotRelease(dir string, r *Release) error {
	boxes := newPlot(r.Label+": distribution", "", "of the median")
	var names []string
	for _, f := range r.Phases {
		if f.Summary == nil {
			continue
		}
		v, number, hours := f.values()
		for i := range hours {
			hours[i] *= 60
		}
		words := fmt.Sprintf("%s: %s\nmedian %.2f", r.Label, f.Title, f.Summary.Median)
		for _, i := range f.Summary.Outliers {
			words += fmt.Sprintf(", outlier: run %d", number[i])
		}
		p := newPlot(words, "minutes since the first run", "Mbit/s")
		if err := level(p, hours[0], hours[len(hours)-1], f.Summary.Median, grey, true); err != nil {
			return err
		}
		if err := dots(p, hours, v, blue); err != nil {
			return err
		}
		for _, i := range f.Summary.Outliers {
			if err := dots(p, hours[i:i+1], v[i:i+1], red); err != nil {
				return err
			}
		}
		room(p)
		if err := write(filepath.Join(dir, f.Name+".svg"), p); err != nil {
			return err
		}
		of := make(plotter.Values, len(v))
		for i := range v {
			of[i] = v[i] / f.Summary.Median
		}
		box, err := plotter.NewBoxPlot(vg.Points(24), float64(len(names)), of)
		if err != nil {
			return err
		}
		boxes.Add(box)
		names = append(names, fmt.Sprintf("%s (%.1f)", f.Title, f.Summary.Median))
	}
	if len(names) == 0 {
		return nil
	}
	boxes.NominalX(names...)
	room(boxes)
	boxes.X.Min, boxes.X.Max = -0.6, float64(len(names))-0.4
	return write(filepath.Join(dir, "distribution.svg"), boxes)
}

// room leaves some around what is drawn.
func room(p *plot.Plot) {
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		by := (a.Max - a.Min) / 20
		if by == 0 {
			by = 0.05
		}
		a.Min, a.Max = a.Min-by, a.Max+by
	}
}

// plotName is the file of a comparison's picture.
func plotName(p *Plan, c Comparison) string {
	for i, name := range p.Points {
		if name == c.Point {
			return fmt.Sprintf("%c-%s.svg", 'A'+i, c.Measure)
		}
	}
	return c.Measure + ".svg"
}

// plotResult draws the differences of each comparison with their interval and the
// bar, and the runs of a null.
func plotResult(dir string, r *Result) error {
	for _, c := range r.Comparisons {
		words := fmt.Sprintf("%s beside %s: %s\nmean %+.2f, 95 %% %s", c.Point, r.Plan.Points[0], measureTitle(&r.Plan, c.Measure), c.Paired.Mean, span(c.Paired.In))
		if c.Verdict != "" {
			words += fmt.Sprintf(", bar %+.2f (red): %s", r.Plan.Bar, c.Verdict)
		}
		p := newPlot(words, "round", "difference, Mbit/s")
		rounds, d := make([]float64, len(c.Values)), make([]float64, len(c.Values))
		for i := range d {
			rounds[i], d[i] = float64(i+1), c.Values[i]-c.Reference[i]
		}
		if err := band(p, 1, float64(len(d)), c.Paired.In); err != nil {
			return err
		}
		if err := level(p, 1, float64(len(d)), 0, grey, false); err != nil {
			return err
		}
		if c.Verdict != "" {
			if err := level(p, 1, float64(len(d)), r.Plan.Bar, red, true); err != nil {
				return err
			}
		}
		if err := level(p, 1, float64(len(d)), c.Paired.Mean, blue, true); err != nil {
			return err
		}
		if err := dots(p, rounds, d, blue); err != nil {
			return err
		}
		room(p)
		if err := write(filepath.Join(dir, plotName(&r.Plan, c)), p); err != nil {
			return err
		}
	}
	for _, n := range r.Noise {
		p := newPlot(fmt.Sprintf("%s: %s\nmean %.2f, sample sd %.2f", r.Plan.title(), measureTitle(&r.Plan, n.Measure), n.Summary.Mean, n.Summary.SD), "run", "Mbit/s")
		runs := make([]float64, len(n.Values))
		for i := range runs {
			runs[i] = float64(i + 1)
		}
		if err := level(p, 1, float64(len(runs)), n.Summary.Mean, grey, true); err != nil {
			return err
		}
		if err := dots(p, runs, n.Values, blue); err != nil {
			return err
		}
		room(p)
		if err := write(filepath.Join(dir, "null-"+n.Measure+".svg"), p); err != nil {
			return err
		}
	}
	return nil
}

// band is an interval behind the rest.
func band(p *plot.Plot, from, to float64, in stats.Interval) error {
	b, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: in.Low}, {X: to, Y: in.Low}, {X: to, Y: in.High}, {X: from, Y: in.High}})
	if err != nil {
		return err
	}
	b.Color, b.LineStyle.Width = shade, 0
	p.Add(b)
	return nil
}
