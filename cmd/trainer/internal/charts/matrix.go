package charts

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/svg"
)

// matrix is a confusion matrix: rows are true classes, columns predicted ones.
type matrix struct {
	counts [][]float64
	labels []string // of the classes
}

const (
	mostClasses = 1000     // of a confusion matrix
	mostHinted  = 100      // classes up to which cells have hints: more make a file of many megabytes
	mostEval    = 16 << 20 // bytes of an answer
	leastCount  = 7.0      // the size of the least text that is read
	labelRoom   = 96.0     // for the name of a class along an axis, in pixels
	mostName    = 80       // characters of a class in the hint of a cell
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
			m.labels[i] = shown(name, mostName)
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
func (m *matrix) panel(room int) *panel {
	n := float64(len(m.counts))
	ticks := m.ticks(room)
	return &panel{svg.Axes{
		Title: "confusion matrix",
		X:     svg.Axis{Label: "predicted class", Low: -0.5, High: n - 0.5, Names: true, Ticks: ticks},
		Y:     svg.Axis{Label: "true class", Low: n - 0.5, High: -0.5, Names: true, Ticks: ticks}, // the first row is at the top
	}, m.draw}
}

// ticks are the classes' labels along an axis, some of them where there is no room
// for all.
func (m *matrix) ticks(room int) (list []svg.Tick) {
	for i := 0; i < len(m.labels); i += 1 + (len(m.labels)-1)/room {
		t := svg.Tick{At: float64(i), Label: svg.Cut(m.labels[i], svg.SmallSize, labelRoom)}
		if t.Label != m.labels[i] {
			t.Hint = m.labels[i]
		}
		list = append(list, t)
	}
	return list
}

// shades explain the colours of cells.
func shades() (list []svg.Entry) {
	for i, part := range []float64{0, 0.01, 0.1, 0.5, 1} {
		words := svg.Share(part)
		if i == 0 {
			words = "share of the true class: " + words
		}
		list = append(list, svg.Entry{Words: words, Style: svg.Style{Fill: svg.Shade(part), Stroke: svg.Frame}})
	}
	return list
}

// draw draws the cells: the darker, the larger the part of the true class. Cells with room have
// their counts, and those with more room their parts.
func (m *matrix) draw(p *svg.Plot) {
	n := len(m.counts)
	last, side := float64(n)-0.5, p.X(1)-p.X(0)
	high := p.Y(1) - p.Y(0)
	size, shares := m.textSize(side-3, 0.7*high), high >= 2.4*svg.HeadSize && side >= 2.6*svg.HeadSize
	p.Rect(svg.Point{X: -0.5, Y: -0.5}, svg.Point{X: last, Y: last}, svg.Style{Fill: svg.Shade(0)})
	for i, row := range m.counts {
		total := 0.0
		for _, v := range row {
			total += v
		}
		for j, v := range row {
			if v == 0 {
				continue
			}
			x, y, fill := float64(j), float64(i), svg.Shade(v/total)
			cell := svg.Style{Fill: fill}
			if n <= mostHinted {
				cell.Hint = fmt.Sprintf("%s, predicted as %s: %s of %s (%s)", m.labels[i], m.labels[j], countText(v), countText(total), svg.Share(v/total))
			}
			p.Rect(svg.Point{X: x - 0.5, Y: y - 0.5}, svg.Point{X: x + 0.5, Y: y + 0.5}, cell)
			if size < leastCount {
				continue
			}
			text := svg.Text{Words: countText(v), Size: size, Color: svg.On(fill), Anchor: svg.Middle, Inside: true}
			if !shares {
				p.Text(svg.Point{X: x, Y: y}, text)
				continue
			}
			p.Text(svg.Point{X: x, Y: y - 8/high}, text)
			text.Words, text.Size = svg.Share(v/total), min(size, svg.SmallSize)
			p.Text(svg.Point{X: x, Y: y + 8/high}, text)
		}
	}
}

// textSize is a size in which each count fits into a cell.
func (m *matrix) textSize(wide, high float64) float64 {
	size := min(svg.HeadSize, high)
	for _, row := range m.counts {
		for _, v := range row {
			size = min(size, svg.HeadSize*wide/svg.Width(countText(v), svg.HeadSize))
		}
	}
	return size
}

// countText is a count: exact up to 9999.
func countText(v float64) string {
	if v < 1e4 {
		return svg.Number(v)
	}
	return svg.Rounded(v)
}
