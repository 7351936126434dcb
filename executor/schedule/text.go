package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// idle is the cell in which a worker waits.
const idle = "."

// String is the schedule as a grid, a line per worker and a column per unit of
// time, with "." where the worker waits:
//
//	schedule 1f1b stages 2 microbatches 2
//	0: 0F0 0F1 .   0B0 .   0B1 0U
//	1: .   1F0 1B0 1F1 1B1 1U  .
//
// Unless worker i has stage i alone, the first line has the number of workers, and
// each line the worker's stages, with their replica if it is not the first: "0
// (0 2): ...". [Parse] reads it back.
func (s Schedule) String() string { return s.Grid() }

// Grid is String with the cells of some actions in brackets. Actions that can
// never run, because of a deadlock, come last in their row.
func (s Schedule) Grid(marked ...Action) string { return s.window(0, math.MaxInt, marked) }

// Begin is the grid, and of a long one as many columns as a line of so many characters
// takes, but at least four: the rest repeats what is shown.
func (s Schedule) Begin(width int) string {
	for columns := max(4, width/4); ; { // a cell is "0F0 " or wider
		text := s.window(0, columns, nil)
		have := widest(text)
		if columns <= 4 || have <= width {
			return text
		}
		columns = max(4, min(columns-1, columns*width/have))
	}
}

// widest is the most characters of a line.
func widest(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return n
}

// Around is the grid with an action's cell in brackets, and of a long one the columns
// about it, of so many.
func (s Schedule) Around(a Action, columns int) string {
	at := 0
	for _, row := range s.cells() {
		if i := slices.Index(row, cell{true, a}); i >= 0 {
			at = i
		}
	}
	from := max(0, at-columns/2)
	return s.window(from, columns, []Action{a})
}

// window is the grid's columns from a number on, at most so many.
func (s Schedule) window(from, most int, marked []Action) string {
	rows, width, columns := s.cells(), 1, 0
	for _, row := range rows {
		columns = max(columns, len(row))
	}
	to := from + min(most, columns-from)
	for i, row := range rows {
		rows[i] = row[min(from, len(row)):min(to, len(row))]
		for _, c := range rows[i] {
			width = max(width, len(c.text(marked)))
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, s.header())
	labels := s.labels()
	for i, row := range rows {
		fmt.Fprintf(&b, "%s:", labels[i])
		spaces := 1 // before the next cell: a line ends without any
		for _, c := range row {
			text := c.text(marked)
			b.WriteString(strings.Repeat(" ", spaces))
			b.WriteString(text)
			spaces = 1 + width - len(text)
		}
		b.WriteString("\n")
	}
	if to-from < columns {
		fmt.Fprintf(&b, "(columns %d to %d of %d)\n", from+1, to, columns)
	}
	return b.String()
}

// header is the first line: the numbers.
func (s Schedule) header() string {
	text := fmt.Sprintf("schedule %s stages %d microbatches %d", s.Name, s.Stages, s.Microbatches)
	if s.Replicas != 1 {
		text += fmt.Sprintf(" replicas %d", s.Replicas)
	}
	if !s.oneEach() {
		text += fmt.Sprintf(" workers %d", len(s.Rows))
	}
	return text
}

// oneEach reports whether worker i has the i-th stage alone, replica after replica.
func (s Schedule) oneEach() bool {
	return len(s.Workers) == len(s.Rows) && slices.Equal(s.Workers, upTo(len(s.Workers)))
}

// upTo is 0, 1, …, n-1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// labels are the beginnings of the lines, equally long.
func (s Schedule) labels() []string {
	labels, has := make([]string, len(s.Rows)), make([][]string, len(s.Rows))
	for i, w := range s.Workers {
		if w >= 0 && w < len(has) {
			has[w] = append(has[w], fmt.Sprint(i%s.Stages)+ofReplica(i/s.Stages))
		}
	}
	digits, width, plain := len(fmt.Sprint(max(0, len(s.Rows)-1))), 0, s.oneEach()
	for w := range labels {
		labels[w] = fmt.Sprintf("%*d", digits, w)
		if !plain {
			labels[w] += " (" + strings.Join(has[w], " ") + ")"
		}
		width = max(width, len(labels[w]))
	}
	for w, l := range labels {
		labels[w] = l + strings.Repeat(" ", width-len(l))
	}
	return labels
}

// cell is a cell of the grid; without an action the worker waits.
type cell struct {
	busy   bool
	action Action
}

func (c cell) text(marked []Action) string {
	switch {
	case !c.busy:
		return idle
	case slices.Contains(marked, c.action):
		return "[" + c.action.String() + "]"
	}
	return c.action.String()
}

// cells lays the actions out in time, each taking one column.
func (s Schedule) cells() [][]cell {
	r := s.play(Costs{Action: func(Action) float64 { return 1 }})
	columns := 0
	for _, sp := range r.spans {
		columns = max(columns, int(sp.End))
	}
	rows := make([][]cell, len(s.Rows))
	for i := range rows {
		rows[i] = make([]cell, columns)
	}
	for _, sp := range r.spans {
		rows[sp.Worker][int(sp.Start)] = cell{true, sp.Action}
	}
	for i, row := range s.Rows {
		for _, a := range row[r.next[i]:] {
			rows[i] = append(rows[i], cell{true, a})
		}
	}
	return rows
}
