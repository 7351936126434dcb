package datasets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/engine/shape"
)

// kindInputs reads the rows of a file to predict from.
func kindInputs(ctx context.Context, s Spec, info *Info, path string) (_ *table, err error) {
	in := csvInput{path: path, opt: s.CSV, skip: s.SkipRows, block: s.Block, predict: true, wanted: info.Columns.ColumnNames(), fitted: info.Columns, memory: s.Memory}
	k, err := newKindTable(ctx, in, info.Columns.Missing)
	if err != nil {
		return nil, err
	}
	if info.Columns.Header && k.header == nil && s.SkipRows > 0 {
		return nil, blame("skip_rows", fmt.Errorf("%w: %s has no names of columns below the first %d lines, which data.skip_rows leaves out: for a file without such lines, add --set data.skip_rows=0", ErrSpec, path, s.SkipRows))
	}
	for i := range k.width {
		k.features = append(k.features, i)
	}
	from, err := k.sources(info.Columns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.release()) }()
	if err := k.keep(s, from); err != nil {
		return nil, err
	}
	if err := k.each(ctx, k.used(), func(csvRow) error { k.rows++; return nil }); err != nil {
		return nil, err
	}
	rows, err := k.readCells(ctx, info.Columns, from, nil)
	if err != nil {
		return nil, err
	}
	if info.Scaling != nil {
		if err := info.Scaling.check(info.Columns.Features()); err != nil {
			return nil, err
		}
	}
	k.noteOrder(s, info.Columns)
	if k.elsewhere != "" {
		s.note(k.elsewhere)
	}
	for _, text := range append(k.absent(info.Columns, from), k.news(info.Columns)...) {
		s.note(text)
	}
	texts, err := k.textsOf(ctx, s, k.each)
	return &table{rows: k.rows, mapping: rows.mapping, columns: []column{cellColumn(rows.cells, &cells{info.Columns, info.Scaling})}, texts: texts}, err
}

// RowFeatures is rows of a table, values by the names of their columns, as features in the unit
// of the data, one row after the other.
func RowFeatures(info *Info, rows []map[string]any) ([]float32, error) {
	of := info.Row()
	if of == nil {
		return nil, fmt.Errorf("%w: the model was not trained on a table: give samples of its kind", ErrSpec)
	}
	width := of.Features()
	if have := info.Inputs[0].Meta.Elems(); have != width {
		return nil, fmt.Errorf("%w: a row has %d features, but the model takes %d numbers", ErrFormat, width, have)
	}
	values := make([]float32, len(rows)*width)
	for i, row := range rows {
		if err := of.RowOf(row, values[i*width:(i+1)*width]); err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", ErrFormat, i, err)
		}
	}
	return values, nil
}

// RowInputs is RowFeatures to predict from.
func RowInputs(info *Info, rows []map[string]any) (*Part, error) {
	values, err := RowFeatures(info, rows)
	if err != nil {
		return nil, err
	}
	if info.Scaling != nil {
		if err := info.Scaling.check(info.Inputs[0].Meta.Elems()); err != nil {
			return nil, err
		}
		info.Scaling.Apply(values)
	}
	t := &table{rows: len(rows), columns: []column{newColumn(info.Inputs[0], shape.Bytes(values))}}
	return &Part{table: t, count: len(rows), ordered: true}, nil
}

// sources are the columns of the file that go in; -1 stands for an optional one that the
// file lacks. Without a header, or for columns without names, places among features count.
func (k *kindTable) sources(f *columns.Fitted) ([]int, error) {
	from := make([]int, len(f.Columns))
	names := f.ColumnNames()
	byName := k.byName(f)
	for i, c := range f.Columns {
		j, ok := k.named[c.Name]
		switch {
		case byName && ok:
		case byName && c.Optional:
			j = -1
		case byName:
			return nil, fmt.Errorf("%w: %s lacks the column %q that the model was trained on; it has %s%s", ErrFormat, k.path, c.Name, k.describe(), k.orGive(c, names))
		case len(k.features) == len(f.Columns):
			j = k.features[i]
		default:
			n, err := strconv.Atoi(c.Name)
			if j = n; f.Header || err != nil || !slices.Contains(k.features, n) {
				return nil, fmt.Errorf("%w: %s has %d features without names that the model knows: use a file with a header, or with the %d columns %s in this order", ErrFormat, k.path, len(k.features), len(names), few(names))
			}
		}
		from[i] = j
	}
	return from, nil
}

// byName reports whether columns are found by name. Names may be numbers: then the model
// says that its training file had a header, or one of an earlier version finds all its names.
// JSON lines and Parquet have no order of columns to go by.
func (c *csvData) byName(f *columns.Fitted) bool {
	switch {
	case c.header == nil:
		return false
	case c.table.Format != tabular.CSV || f.Header || hasNames(f.ColumnNames()):
		return true
	}
	return namesAll(c.named, f)
}

// noteOrder notes that a file without a header is taken by the order of its columns, where the model knows their names.
func (c *csvData) noteOrder(s Spec, f *columns.Fitted) {
	if names := f.ColumnNames(); c.header == nil && (f.Header || hasNames(names)) {
		s.note(fmt.Sprintf("%s has no header, so its features are taken by their order: %s", c.path, few(names)))
	}
}

// namesAll reports whether names has every column that a row must have, and at least one.
func namesAll(names map[string]int, f *columns.Fitted) bool {
	some := false
	for i := range f.Columns {
		_, ok := names[f.Columns[i].Name]
		if !ok && !f.Columns[i].Optional {
			return false
		}
		some = some || ok
	}
	return some
}
