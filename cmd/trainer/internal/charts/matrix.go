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
		list = append(list, svg.Tick{At: float64(i), Label: m.labels[i]})
	}
	return list
}

// draw draws the cells: the darker, the larger the part of the true class.
func (m *matrix) draw(p *svg.Plot) {
	n := len(m.counts)
	last, size := float64(n)-0.5, m.textSize(p.X(1)-p.X(0)-3)
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
			p.Rect(svg.Point{X: x - 0.5, Y: y - 0.5}, svg.Point{X: x + 0.5, Y: y + 0.5}, svg.Style{Fill: fill})
			if n <= mostWritten {
				p.Text(svg.Point{X: x, Y: y}, svg.Text{Words: countText(v), Size: size, Color: svg.On(fill), Anchor: svg.Middle})
			}
		}
	}
}

// textSize is a size in which each count is as wide as a room, at most.
func (m *matrix) textSize(room float64) float64 {
	size := svg.HeadSize
	for _, row := range m.counts {
		for _, v := range row {
			size = min(size, svg.HeadSize*room/svg.Width(countText(v), svg.HeadSize))
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
