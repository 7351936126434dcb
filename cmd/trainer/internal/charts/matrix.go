package charts

import (
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/osfile"
)

// matrix is a confusion matrix: rows are true classes, columns predicted ones.
type matrix struct {
	counts [][]float64
	labels []string // of the classes
}

const (
	mostClasses = 1000     // of a confusion matrix
	mostWritten = 20       // classes up to which cells have numbers
	mostEval    = 16 << 20 // bytes of an answer
)

func newMatrix(counts [][]float64, labels []string) (*matrix, error) {
	n := len(counts)
	if n == 0 || n > mostClasses {
		return nil, fmt.Errorf("a confusion matrix of %d classes: expected 1 to %d", n, mostClasses)
	}
	for i, row := range counts {
		if len(row) != n {
			return nil, fmt.Errorf("row %d of the confusion matrix has %d numbers: expected %d, one for each row", i, len(row), n)
		}
		for _, v := range row {
			if v < 0 || v > largest {
				return nil, fmt.Errorf("row %d of the confusion matrix has %g: expected a count", i, v)
			}
		}
	}
	m := &matrix{counts: counts, labels: make([]string, n)}
	for i := range m.labels {
		m.labels[i] = fmt.Sprint(i)
	}
	m.name(labels)
	return m, nil
}

// name labels the classes with their names, where they have some. A nil matrix has none.
func (m *matrix) name(names []string) {
	if m == nil || len(names) != len(m.labels) {
		return
	}
	for i, name := range names {
		if name != "" {
			m.labels[i] = shown(name, 16)
		}
	}
}

// readMatrix reads the answer of eval --json.
func readMatrix(_ context.Context, path string) (*matrix, error) {
	b, err := osfile.Read(path, mostEval+1)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Confusion [][]float64 `json:"confusion"`
		Classes   []struct {
			Label string `json:"label"`
		} `json:"classes"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || len(b) > mostEval {
		return nil, cli.Usagef("%s is neither a run folder nor the output of trainer eval --json", path)
	}
	if len(answer.Confusion) == 0 {
		return nil, cli.Usagef("%s has no confusion matrix: name the output of trainer eval --json of a classifier", path)
	}
	var labels []string
	for _, c := range answer.Classes {
		labels = append(labels, c.Label)
	}
	m, err := newMatrix(answer.Confusion, labels)
	if err != nil {
		return nil, cli.Usagef("%s: %w", path, err)
	}
	return m, nil
}

// panel is the matrix with its axes, which have room for so many labels.
func (m *matrix) panel(room int) *plot.Plot {
	p := newPlot("confusion matrix", "predicted class")
	p.Y.Label.Text = "true class"
	n := float64(len(m.counts))
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, n-0.5, -0.5, n-0.5
	p.X.Padding, p.Y.Padding = 0, 0
	across, down := m.ticks(room, false), m.ticks(room, true)
	if longest(across) > 4 {
		p.X.Tick.Label.Rotation = math.Pi / 4
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YCenter
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.ConstantTicks(across), plot.ConstantTicks(down)
	p.X.Tick.Length, p.Y.Tick.Length = 0, 0
	p.X.LineStyle.Width, p.Y.LineStyle.Width = 0, 0
	p.Add(m)
	return p
}

// ticks are the classes' labels along an axis, some of them where there is no room
// for all; the first row is at the top.
func (m *matrix) ticks(room int, reversed bool) (list []plot.Tick) {
	n := len(m.labels)
	every := 1 + (n-1)/room
	for i := 0; i < n; i += every {
		at := i
		if reversed {
			at = n - 1 - i
		}
		list = append(list, plot.Tick{Value: float64(at), Label: m.labels[i]})
	}
	return list
}

func longest(list []plot.Tick) (most int) {
	for _, t := range list {
		most = max(most, len([]rune(t.Label)))
	}
	return most
}

// Plot draws the cells: the darker, the larger the part of the true class.
func (m *matrix) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	n := len(m.counts)
	side := min(x(1)-x(0), y(1)-y(0))
	style := textStyle(min(10, max(5, side/3)), ink)
	style.XAlign, style.YAlign = text.XCenter, text.YCenter
	for i, row := range m.counts {
		total := 0.0
		for _, v := range row {
			total += v
		}
		top := float64(n - 1 - i)
		for j, v := range row {
			part := 0.0
			if total > 0 {
				part = v / total
			}
			col := float64(j)
			c.FillPolygon(shade(part), []vg.Point{
				{X: x(col - 0.5), Y: y(top - 0.5)}, {X: x(col + 0.5), Y: y(top - 0.5)},
				{X: x(col + 0.5), Y: y(top + 0.5)}, {X: x(col - 0.5), Y: y(top + 0.5)},
			})
			if n > mostWritten || v == 0 {
				continue
			}
			style.Color = ink
			if part > 0.45 {
				style.Color = color.White
			}
			c.FillText(style, vg.Point{X: x(col), Y: y(top)}, number(v))
		}
	}
}

// shade is a part from 0 to 1 as a colour from nearly white to dark blue.
func shade(part float64) color.Color {
	from, to := [3]float64{0xf4, 0xf7, 0xfa}, [3]float64{0x00, 0x3f, 0x6b}
	at := math.Sqrt(part) // so that few errors are seen, too
	mix := func(i int) uint8 { return uint8(from[i] + (to[i]-from[i])*at) }
	return color.NRGBA{mix(0), mix(1), mix(2), 0xff}
}
