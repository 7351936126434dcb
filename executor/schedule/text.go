package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// idle is the cell in which a stage waits.
const idle = "."

// String is the schedule as a grid, a line per stage and a column per unit of
// time, with "." where the stage waits:
//
//	schedule 1f1b stages 2 microbatches 2
//	0: 0F0 0F1 .   0B0 .   0B1 0U
//	1: .   1F0 1B0 1F1 1B1 1U  .
//
// [Parse] reads it back.
func (s Schedule) String() string { return s.Grid() }

// Grid is String with the cells of some actions in brackets. Actions that can
// never run, because of a deadlock, come last in their row.
func (s Schedule) Grid(marked ...Action) string {
	rows := s.cells()
	width := 1
	for _, row := range rows {
		for _, c := range row {
			width = max(width, len(c.text(marked)))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "schedule %s stages %d microbatches %d\n", s.Name, s.Stages, s.Microbatches)
	digits := len(fmt.Sprint(max(0, len(rows)-1)))
	for stage, row := range rows {
		fmt.Fprintf(&b, "%*d:", digits, stage)
		spaces := 1 // before the next cell: a line ends without any
		for _, c := range row {
			text := c.text(marked)
			b.WriteString(strings.Repeat(" ", spaces))
			b.WriteString(text)
			spaces = 1 + width - len(text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cell is a cell of the grid; without an action the stage waits.
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
	r := s.play(func(Action) float64 { return 1 })
	columns := 0
	for _, sp := range r.spans {
		columns = max(columns, int(sp.End))
	}
	rows := make([][]cell, len(s.PerStage))
	for i := range rows {
		rows[i] = make([]cell, columns)
	}
	for i, sp := range r.spans {
		rows[r.rows[i]][int(sp.Start)] = cell{true, sp.Action}
	}
	for i, row := range s.PerStage {
		for _, a := range row[r.next[i]:] {
			rows[i] = append(rows[i], cell{true, a})
		}
	}
	return rows
}

// Parse reads what [Schedule.String] prints. It checks the form only; call
// [Schedule.Validate] for the rest.
func Parse(text string) (Schedule, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	s, err := parseHeader(lines[0])
	if err != nil {
		return Schedule{}, err
	}
	if len(lines)-1 != s.Stages {
		return Schedule{}, fmt.Errorf("%w: %d rows for %d stages; write one line per stage", ErrSyntax, len(lines)-1, s.Stages)
	}
	for stage, line := range lines[1:] {
		row, err := parseRow(stage, line)
		if err != nil {
			return Schedule{}, fmt.Errorf("line %d: %w", stage+2, err)
		}
		s.PerStage = append(s.PerStage, row)
	}
	return s, nil
}

func parseHeader(line string) (Schedule, error) {
	f := strings.Fields(line)
	if len(f) != 6 || f[0] != "schedule" || f[2] != "stages" || f[4] != "microbatches" {
		return Schedule{}, fmt.Errorf("%w: the first line is %q, expected \"schedule NAME stages N microbatches N\"", ErrSyntax, line)
	}
	s := Schedule{Name: f[1]}
	var err error
	if s.Stages, err = number(f[3]); err != nil {
		return Schedule{}, fmt.Errorf("%w: stages: %w", ErrSyntax, err)
	}
	if s.Microbatches, err = number(f[5]); err != nil {
		return Schedule{}, fmt.Errorf("%w: microbatches: %w", ErrSyntax, err)
	}
	return s, nil
}

func parseRow(stage int, line string) ([]Action, error) {
	head, cells, ok := strings.Cut(line, ":")
	if !ok || strings.TrimSpace(head) != fmt.Sprint(stage) {
		return nil, fmt.Errorf("%w: the line of stage %d is %q; begin it with \"%d:\"", ErrSyntax, stage, line, stage)
	}
	var row []Action
	for _, c := range strings.Fields(cells) {
		if c == idle {
			continue
		}
		a, err := ParseAction(c)
		if err != nil {
			return nil, err
		}
		row = append(row, a)
	}
	return row, nil
}
