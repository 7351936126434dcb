package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/columns"
)

// tableRows reads the columns of a table that are used, row by row.
type tableRows func(ctx context.Context, used []bool, row func(csvRow) error) error

// keys reads from the rows of a table what its parts depend on. It is nil where nothing does, and
// for other data than that of s.Like, which may lack such columns and is not divided.
func (c *csvData) keys(ctx context.Context, s Spec, each tableRows) (*rowKeys, error) {
	d := s.Division
	if d == nil || !d.divides() {
		return nil, nil
	}
	k := &rowKeys{}
	if !c.regression {
		k.classes, k.class = c.classes, func(class int32) string { return c.classNames[class] }
	}
	if !d.needsKeys() {
		return k, nil
	}
	err := c.readKeys(ctx, s, each, k)
	if err != nil && s.Like != nil && !s.GoesOn && ctx.Err() == nil {
		return nil, nil
	}
	return k, err
}

// readKeys reads the columns that divide the rows.
func (c *csvData) readKeys(ctx context.Context, s Spec, each tableRows, k *rowKeys) error {
	d, option := s.Division, "split.by"
	name := d.By
	if d.Latest != "" {
		option, name = "split.latest", d.Latest
	}
	column, err := c.dividing(name, option)
	if err != nil {
		return err
	}
	g, m := valueGroups{numbers: map[string]int32{}, most: s.Memory}, newOrderedColumn(s.Columns, c.names([]int{column})[0], name)
	rows := 0
	err = each(ctx, c.used([]int{column}), func(row csvRow) error {
		if rows++; rows > c.rows {
			return c.table.Changed()
		}
		field := bytes.TrimSpace(row.Fields[column])
		add := g.add
		if d.Latest != "" {
			add = m.add
		}
		if err := add(field); err != nil {
			return blame(option, c.fieldError(row, column, err.Error()))
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case rows != c.rows:
		return c.table.Changed()
	case d.By != "":
		k.groups = g.of
		return nil
	}
	if k.latest, err = m.values(); err != nil {
		return blame(option, fmt.Errorf("%w: %s: column %q: %w", ErrSpec, c.path, name, err))
	}
	return nil
}

// dividing finds a column that divides the rows. It may be one that is ignored, or the label.
func (c *csvColumns) dividing(name, option string) (int, error) {
	i, ok := c.column(name)
	if ok {
		return i, nil
	}
	return 0, blame(option, fmt.Errorf("%w: %s: there is no column %q to divide the rows by among %s%s: name one of them in data.%s",
		ErrSpec, c.path, name, c.describe(), c.hint(name), option))
}

// valueGroups numbers the values of a column in the order of the file.
type valueGroups struct {
	numbers map[string]int32
	of      []int32 // by row
	bytes   int64
	most    int64 // bytes that the values may take; 0: no limit
}

// add adds the value of a row. The empty field is a value like any other.
func (g *valueGroups) add(field []byte) error {
	n, seen := g.numbers[string(field)]
	if !seen {
		const entry = 64 // bytes that a value takes in the map, beside its text
		if g.bytes += entry + int64(len(field)); g.most > 0 && g.bytes > g.most {
			return errors.New("the different values of the column so far take more memory than there is: divide by a column with fewer values")
		}
		n = int32(len(g.numbers))
		g.numbers[string(field)] = n
	}
	g.of = append(g.of, n)
	return nil
}

// orderedColumn reads a column as numbers, and as dates in each order, as long as all rows fit.
type orderedColumn struct {
	name    string
	asked   string // how the config names the column
	missing []string
	ways    []*way
}

// way is a way to read a column.
type way struct {
	order  string // of a date; "": a number
	values []float64
}

// newOrderedColumn reads a column in the order that options name, or else in any.
func newOrderedColumn(o columns.Options, name, asked string) *orderedColumn {
	m := &orderedColumn{name: name, asked: asked, missing: o.Missing}
	for _, x := range o.Columns {
		if (x.Name == name || x.Name == asked) && x.Order != "" {
			m.ways = []*way{{order: x.Order}}
			return m
		}
	}
	for _, order := range append([]string{""}, columns.Orders...) {
		m.ways = append(m.ways, &way{order: order})
	}
	return m
}

// add adds the value of a row.
func (m *orderedColumn) add(field []byte) error {
	if columns.IsMissing(m.missing, field) {
		return errors.New("the value that orders the rows is missing: fill it in, or take the row out")
	}
	left := slices.DeleteFunc(slices.Clone(m.ways), func(w *way) bool {
		v, ok := w.read(field)
		w.values = append(w.values, v)
		return !ok
	})
	if first := len(m.ways[0].values) == 1; len(left) == 0 && first {
		return fmt.Errorf("%.40q is not %s: correct it, or order the rows by another column", field, m.expected())
	}
	if len(left) == 0 {
		return fmt.Errorf("%.40q is not %s, as the rows above it are: correct it, or order the rows by another column", field, m.expected())
	}
	m.ways = left
	return nil
}

// expected describes the ways that are left.
func (m *orderedColumn) expected() string {
	var list []string
	for _, w := range m.ways {
		if w.order == "" {
			list = append(list, "a number")
		} else {
			list = append(list, "a date ("+w.order+")")
		}
	}
	return strings.Join(list, " or ")
}

// read reads a field.
func (w *way) read(field []byte) (float64, bool) {
	if w.order != "" {
		return columns.Moment(field, w.order)
	}
	v, err := strconv.ParseFloat(string(field), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// values are those of all rows. Dates that fit two orders are refused.
func (m *orderedColumn) values() ([]float64, error) {
	if len(m.ways) > 1 {
		return nil, fmt.Errorf("all its dates can be read with the day or the month first: say which with data.columns: {%s: {kind: date, order: dmy}}, or order: mdy", m.asked)
	}
	return m.ways[0].values, nil
}
