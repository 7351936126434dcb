package datasets

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tabular"
)

// openTable finds the columns of the table that in describes. named reports whether the first row
// of a CSV file names them.
func openTable(ctx context.Context, in csvInput, named func(head headRows) bool) (*tabular.Table, error) {
	t, err := tabular.Open(ctx, in.path, tabular.Options{Comma: in.opt.Comma, Skip: in.skip, Named: func(rows [][]string) bool { return named(headRows{rows}) }})
	switch {
	case err != nil:
		return nil, err
	case t.Format != tabular.CSV && in.opt.Header == HeaderNo && !in.predict:
		return nil, blame("header", fmt.Errorf("%w: %s has names for its columns, as %s has: leave data.header out", ErrSpec, in.path, t.Format))
	case t.Other != "" && len(in.wanted) != 1:
		return nil, blame("delimiter", fmt.Errorf("%w: %s: its rows are one column%s", ErrSpec, in.path, tabular.CommaHint(t.Other)))
	}
	return t, nil
}

// begin takes the names and the width of a table.
func (c *csvData) begin(t *tabular.Table, in csvInput) error {
	c.regression, c.bits, c.unit = in.opt.numbers(), in.opt.Task == TaskMultilabel, in.unit
	c.trained = in.like != nil || in.predict
	if in.like != nil {
		c.follow(in.like.ClassNames)
	}
	c.table, c.path, c.width, c.header = t, t.Path, t.Width, t.Names
	return c.nameColumns()
}

// tableName names a dataset by its table.
func tableName(t *tabular.Table) string {
	if n := len(t.Files); n > 1 {
		return fmt.Sprintf("%s %s (%d files)", t.Format, t.Path, n)
	}
	return t.Format + " " + t.Path
}

// headRows are the first rows of a table.
type headRows struct{ rows [][]string }

// second is the second row, nil if there is none.
func (h *headRows) second() []string {
	if len(h.rows) < 2 {
		return nil
	}
	return h.rows[1]
}

// namesAll reports whether the first row names the columns of a model, whose training file
// had a header. The names may be numbers.
func (h *headRows) namesAll(f *columns.Fitted) bool {
	if f == nil || !f.Header {
		return false
	}
	names := make(map[string]int, len(h.rows[0]))
	for i, name := range h.rows[0] {
		names[name] = i
	}
	return namesAll(names, f)
}

// named reports whether the first row names the columns: it has different words, none is a
// number, and none comes again in its column.
func (h *headRows) named(missing []string) bool {
	seen := map[string]bool{}
	for i, name := range h.rows[0] {
		if seen[name] || isNumber(name) || columns.IsMissing(missing, []byte(name)) {
			return false
		}
		seen[name] = true
		for _, row := range h.rows[1:] {
			if row[i] == name {
				return false
			}
		}
	}
	return true
}
