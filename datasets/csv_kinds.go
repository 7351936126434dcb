package datasets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/shape"
)

// A table in which not every field is a number is read several times: for its labels, for
// the kinds of its columns, and for its cells. So it takes four bytes of memory for a field,
// and never holds its text.

// errKinds is the error of a table that must be read in that way.
var errKinds = errors.New("not a table of numbers")

// ofKinds marks an error about a field: the table may be one with kinds.
func ofKinds(err error) error { return &otherKind{err} }

type otherKind struct{ error }

func (o *otherKind) Unwrap() error        { return o.error }
func (o *otherKind) Is(target error) bool { return target == errKinds }

// kindTable is a table with columns of any kind.
type kindTable struct {
	csvData
	read    tableRows
	missing []string          // as in columns.Options
	asked   map[string]string // by the name of a column: how data.columns names it
	memory  int64             // most bytes that the cells may take; 0: no limit
	dropped []bool            // by row of the file: it has no label; nil: all have
	skipped int               // rows without a label
	unseen  []unseen          // by column that goes in, of a file for a model
}

// openKinds reads a table with columns of any kind.
func openKinds(ctx context.Context, s Spec) (*Dataset, error) {
	missing := s.Columns.Missing
	in := csvInput{path: s.Path, opt: s.CSV, unit: s.UnitTarget, memory: s.Memory}
	if s.Like != nil {
		in.fitted, missing = s.Like.Columns, s.Like.Columns.Missing
	}
	k, err := newKindTable(ctx, in, missing)
	if err != nil {
		return nil, err
	}
	if err := k.choose(s.CSV, nil); err != nil {
		return nil, err
	}
	if s.Like != nil {
		return k.openLike(ctx, s)
	}
	if err := k.readLabels(ctx); err != nil {
		return nil, err
	}
	ds := &Dataset{Name: "csv " + s.Path}
	t := &table{rows: k.rows}
	if ds.Train, ds.Val, err = splitRandomly(t, s, s.splitOr(0.8)); err != nil {
		return nil, err
	}
	finder, fitted, err := k.find(ctx, s, ds.Train)
	if err != nil {
		return nil, err
	}
	rows, err := k.readCells(ctx, fitted, k.from(finder), func(i int) { finder.Allow(fitted, i) })
	if err != nil {
		return nil, err
	}
	ds.Columns, err = finder.Measure(fitted, ds.Train.count, func(yield func([]int32)) {
		for i := range ds.Train.count {
			yield(rows.row(ds.Train.splitRow(i)))
		}
	})
	if err != nil {
		return nil, k.place(err)
	}
	if ds.Options, err = finder.Resolved(fitted); err != nil {
		return nil, k.place(err)
	}
	fitted.Header = k.header != nil
	leaks := k.leaks(fitted.ColumnNames(), func(row, i int) int32 { return rows.row(row)[i] })
	if err := k.finish(ctx, s, ds, fitted, rows); err != nil {
		return nil, err
	}
	ds.Notes = slices.Concat(ds.Notes, columns.Notes(ds.Columns), leaks, k.labelNotes(k.names(k.labels)[0]))
	ds.Columns = append(ds.Columns, k.labelDescriptions(&ds.Info)...)
	return ds, nil
}

// openLike reads the table with the columns of a model to evaluate.
func (k *kindTable) openLike(ctx context.Context, s Spec) (*Dataset, error) {
	fitted := s.Like.Columns
	from, err := k.sources(fitted)
	if err != nil {
		return nil, err
	}
	if err := k.readLabels(ctx); err != nil {
		return nil, err
	}
	rows, err := k.readCells(ctx, fitted, from, nil)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: "csv " + s.Path, Train: &Part{table: &table{rows: k.rows}}}
	if ds.Notes = k.absent(fitted, from); !s.GoesOn { // else they are in the validation part, as before
		ds.Notes = append(ds.Notes, k.news(fitted)...)
	}
	return ds, k.finish(ctx, s, ds, fitted, rows)
}

// finish makes the dataset of the labels and cells.
func (k *kindTable) finish(ctx context.Context, s Spec, ds *Dataset, fitted *columns.Fitted, rows *cellRows) error {
	t, of := ds.Train.table, &cells{columns: fitted}
	t.columns = []column{cellColumn(rows.cells, of)}
	info := Info{Inputs: []Field{t.columns[0].field}, Features: fitted.Names(), Columns: fitted}
	target, err := k.targetColumn(ctx, s, &info)
	if err != nil {
		return err
	}
	t.columns, info.Target = append(t.columns, target), target.field
	if info.Fingerprint, err = k.print(ctx, s, &info, t); err != nil {
		return err
	}
	if s.Like != nil {
		if ds.Train, ds.Val, err = splitRandomly(t, s, s.trainFraction(info.Fingerprint, 0.8)); err != nil {
			return err
		}
	}
	if k.skipped > 0 {
		ds.Notes = append(ds.Notes, fmt.Sprintf("%d of %d rows have no label and are left out", k.skipped, k.skipped+k.rows))
	}
	ds.Info = info
	return k.scale(ctx, s, ds, of)
}

// print is the table's fingerprint.
func (k *kindTable) print(ctx context.Context, s Spec, info *Info, t *table) (string, error) {
	text, err := info.Columns.Text()
	if err != nil {
		return "", err
	}
	options := []any{s.CSV, info.ClassNames, text}
	if s.ScaleTarget {
		options = append(options, "target")
	}
	return fingerprint(ctx, s, options, t)
}

// scale measures how features and targets are scaled, or takes it from s.Like. Features are
// scaled when they are read, targets now.
func (k *kindTable) scale(ctx context.Context, s Spec, ds *Dataset, of *cells) (err error) {
	info := &ds.Info
	if s.Like != nil {
		info.Scaling, info.TargetScaling = s.Like.Scaling, s.Like.TargetScaling
	} else if s.CSV.Standardize {
		features := make([]float32, of.columns.Features())
		data := &ds.Train.table.columns[0]
		info.Scaling, err = fitScaling(ctx, ds.Train, len(features), func(row int) []float32 {
			data.fill(row, shape.Bytes(features))
			return features
		})
		info.Scaling.leave(of.columns.Scaled())
	}
	if err == nil && s.Like == nil && k.regression && s.ScaleTarget {
		info.TargetScaling, err = fitScaling(ctx, ds.Train, len(k.labels), rowsOf(k.targets, len(k.labels)))
	}
	if err == nil && info.Scaling != nil {
		err = info.Scaling.check(of.columns.Features())
	}
	if err == nil && info.TargetScaling != nil && k.regression {
		err = info.TargetScaling.apply(ctx, k.targets)
	}
	of.scaling = info.Scaling
	return err
}

// kindInputs reads the rows of a file to predict from.
func kindInputs(ctx context.Context, s Spec, info *Info, path string) (*table, error) {
	in := csvInput{path: path, opt: s.CSV, predict: true, wanted: info.Columns.ColumnNames(), fitted: info.Columns, memory: s.Memory}
	k, err := newKindTable(ctx, in, info.Columns.Missing)
	if err != nil {
		return nil, err
	}
	for i := range k.width {
		k.features = append(k.features, i)
	}
	from, err := k.sources(info.Columns)
	if err != nil {
		return nil, err
	}
	if err := k.each(ctx, func(csvRow) error { k.rows++; return nil }); err != nil {
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
	for _, text := range append(k.absent(info.Columns, from), k.news(info.Columns)...) {
		s.note(text)
	}
	return &table{rows: k.rows, columns: []column{cellColumn(rows.cells, &cells{info.Columns, info.Scaling})}}, nil
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

// newKindTable begins to read a table: its names and its width.
func newKindTable(ctx context.Context, in csvInput, missing []string) (*kindTable, error) {
	k := &kindTable{missing: missing, memory: in.memory}
	k.path, k.regression, k.unit = in.path, in.opt.Task == TaskRegression, in.unit
	head, err := firstRows(ctx, in)
	if err != nil {
		return nil, err
	}
	k.width = len(head.rows[0])
	if isHeader(head.rows[0], head.second(), in.opt, in.wanted) || in.opt.Header != HeaderNo && (head.named(missing) || head.namesAll(in.fitted)) {
		k.header = head.rows[0]
	}
	if head.hint != "" && len(in.wanted) != 1 {
		return nil, blame("delimiter", fmt.Errorf("%w: %s: its rows are one column%s", ErrSpec, in.path, head.hint))
	}
	if k.header != nil && len(head.rows) == 1 {
		return nil, fmt.Errorf("%w: %s has a header but no rows: put samples below it", ErrTooFew, in.path)
	}
	k.read = csvSource(in, k.header != nil)
	return k, k.nameColumns()
}

// each hands over the rows that have a label.
func (k *kindTable) each(ctx context.Context, f func(row csvRow) error) error {
	i := 0
	return k.read(ctx, func(row csvRow) error {
		dropped := k.dropped != nil && i < len(k.dropped) && k.dropped[i]
		if i++; dropped {
			return nil
		}
		if len(row.fields) != k.width {
			return k.changed()
		}
		return f(row)
	})
}

// readLabels reads the labels. It counts the rows that have one.
func (k *kindTable) readLabels(ctx context.Context) error {
	file := 0
	err := k.each(ctx, func(row csvRow) error {
		if file++; k.unlabelled(row) {
			k.dropped = append(k.dropped, make([]bool, file-len(k.dropped))...)
			k.dropped[file-1] = true
			k.skipped++
			return nil
		}
		for _, j := range k.labels {
			if err := k.addLabel(row, j); err != nil {
				return err
			}
		}
		k.rows++
		return nil
	})
	if err == nil && k.rows == 0 {
		err = blame("label", fmt.Errorf("%w: %s: none of %d rows has a label: take another column as the label", ErrTooFew, k.path, k.skipped))
	}
	return err
}

// unlabelled reports whether a row lacks a label. A class may be named like a word for a
// missing number, such as NA, so those count only if they were given.
func (k *kindTable) unlabelled(row csvRow) bool {
	for _, j := range k.labels {
		field := bytes.TrimSpace(row.fields[j])
		if len(field) == 0 || (k.regression || k.missing != nil) && columns.IsMissing(k.missing, field) {
			return true
		}
	}
	return false
}

// find finds the kinds of the columns in the training part.
func (k *kindTable) find(ctx context.Context, s Spec, train *Part) (*columns.Finder, *columns.Fitted, error) {
	options, err := k.namedOptions(s.Columns)
	if err != nil {
		return nil, nil, k.place(err)
	}
	finder, err := columns.NewFinder(k.names(k.features), options, s.Memory)
	if err != nil {
		return nil, nil, k.place(err)
	}
	inTrain := make([]bool, k.rows)
	for i := range train.count {
		inTrain[train.splitRow(i)] = true
	}
	for again := true; again; again = finder.Again() {
		fields := make([][]byte, len(k.features))
		i := -1
		err := k.each(ctx, func(row csvRow) error {
			if i++; i >= len(inTrain) {
				return k.changed()
			}
			if !inTrain[i] {
				return nil
			}
			for n, j := range k.features {
				fields[n] = row.fields[j]
			}
			return finder.Add(fields, func(n int) columns.Place {
				at := row.at[k.features[n]]
				return columns.Place{Line: at.line, Column: at.column}
			})
		})
		if err == nil && i != len(inTrain)-1 {
			err = k.changed()
		}
		if err != nil {
			return nil, nil, k.place(err)
		}
	}
	fitted, err := finder.Found()
	if err == nil && len(fitted.Columns) == 0 {
		err = fmt.Errorf("%w: %s: no column can be a feature: they are texts, identifiers or without values; name kinds with data.columns", ErrFormat, k.path)
	}
	return finder, fitted, k.place(err)
}

// namedOptions are options whose columns are named, where they were given by number.
func (k *kindTable) namedOptions(o columns.Options) (columns.Options, error) {
	o.Columns = slices.Clone(o.Columns)
	k.asked = make(map[string]string, len(o.Columns))
	for i := range o.Columns {
		x := &o.Columns[i]
		asked := x.Name
		if j, ok := k.column(asked); ok && asked != columns.All {
			x.Name = k.names([]int{j})[0]
		}
		if other, twice := k.asked[x.Name]; twice {
			return o, &columns.OptionError{Name: asked, Text: fmt.Sprintf("%q and %q are the same column: keep one of them", other, asked)}
		}
		k.asked[x.Name] = asked
	}
	return o, nil
}

// from are the columns of the file that go in.
func (k *kindTable) from(f *columns.Finder) []int {
	from := slices.Clone(f.Sources())
	for i, n := range from {
		from[i] = k.features[n]
	}
	return from
}

// changed is the error of a file that has other rows than a moment ago.
func (k *kindTable) changed() error {
	return fmt.Errorf("%w: %s changed while it was read: try again once nothing writes to it", ErrFormat, k.path)
}

// place gives an error about a column its place in the file or in the config.
func (k *kindTable) place(err error) error {
	if field, ok := errors.AsType[*columns.FieldError](err); ok {
		name := ""
		if k.header != nil {
			name = fmt.Sprintf(" (column %q)", field.Column)
		}
		return fmt.Errorf("%w: %s:%d:%d%s: %s", ErrFormat, k.path, field.At.Line, field.At.Column, name, field.Text)
	}
	if option, ok := errors.AsType[*columns.OptionError](err); ok {
		return blame("columns."+cmp.Or(k.asked[option.Name], option.Name), fmt.Errorf("%w: %s: %s", ErrSpec, k.path, option.Text))
	}
	if errors.Is(err, columns.ErrOther) {
		return k.changed()
	}
	if _, ok := errors.AsType[*columns.LimitError](err); ok {
		return fmt.Errorf("%w: %s: %w", ErrMemory, k.path, err)
	}
	return err
}

// cellRows are rows of cells.
type cellRows struct {
	cells []int32
	width int
}

func (r *cellRows) row(i int) []int32 { return r.cells[i*r.width : (i+1)*r.width] }

// readCells reads the cells of the columns that go in, from their columns in the file; -1 is
// one that the file lacks. allow is told of each column that a row lacks and may not lack yet;
// nil: that is an error.
func (k *kindTable) readCells(ctx context.Context, f *columns.Fitted, from []int, allow func(i int)) (*cellRows, error) {
	out := &cellRows{width: len(f.Columns)}
	if err := fits(k.path, 4*int64(k.rows)*int64(out.width), k.memory); err != nil {
		return nil, err
	}
	out.cells = make([]int32, 0, k.rows*out.width)
	k.unseen = make([]unseen, out.width)
	err := k.each(ctx, func(row csvRow) error {
		if len(out.cells) == cap(out.cells) {
			return k.changed()
		}
		for i, j := range from {
			var field []byte
			if j >= 0 {
				field = row.fields[j]
			}
			if allow != nil && !f.Columns[i].Optional && f.Lacks(field) {
				allow(i)
			}
			cell, err := f.Cell(i, field)
			if err != nil {
				return k.cellError(row, j, f.Columns[i].Name, err)
			}
			if allow == nil && f.Unseen(i, cell) {
				k.unseen[i].add(field)
			}
			out.cells = append(out.cells, cell)
		}
		return nil
	})
	if err == nil && len(out.cells) != cap(out.cells) {
		err = k.changed()
	}
	return out, err
}

// cellError names the place of a field. The file may lack its column.
func (k *kindTable) cellError(row csvRow, j int, name string, err error) error {
	if j < 0 {
		return fmt.Errorf("%w: %s lacks the column %q: %w", ErrFormat, k.path, name, err)
	}
	return k.fieldError(row, j, err.Error())
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
			return nil, fmt.Errorf("%w: %s lacks the column %q that the model was trained on; it has %s%s", ErrFormat, k.path, c.Name, k.describe(), k.didYouMean(c.Name, f))
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
func (k *kindTable) byName(f *columns.Fitted) bool {
	switch {
	case k.header == nil:
		return false
	case f.Header || hasNames(f.ColumnNames()):
		return true
	}
	return namesAll(k.named, f)
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

// DescribeTable describes the columns of a csv file, of all its rows, whichever is the label.
func DescribeTable(ctx context.Context, s Spec) ([]columns.Description, error) {
	if _, err := formatOf(s); err != nil {
		return nil, err
	}
	k, err := newKindTable(ctx, csvInput{path: s.Path, opt: s.CSV, memory: s.Memory}, s.Columns.Missing)
	if err != nil {
		return nil, err
	}
	ignored, err := k.csvColumns.find("ignored", "ignore", s.CSV.Ignore)
	if err != nil {
		return nil, err
	}
	for i := range k.width {
		if !slices.Contains(ignored, i) {
			k.features = append(k.features, i)
		}
	}
	if err := k.readLabels(ctx); err != nil {
		return nil, err
	}
	all := &Part{table: &table{rows: k.rows}, count: k.rows}
	finder, fitted, err := k.find(ctx, s, all)
	if err != nil {
		return nil, err
	}
	rows, err := k.readCells(ctx, fitted, k.from(finder), nil)
	if err != nil {
		return nil, err
	}
	list, err := finder.Measure(fitted, k.rows, rows.all)
	return list, k.place(err)
}

// all hands over all rows.
func (r *cellRows) all(yield func(cells []int32)) {
	for i := 0; i < len(r.cells); i += r.width {
		yield(r.cells[i : i+r.width])
	}
}

// labelDescriptions describe the labels.
func (k *kindTable) labelDescriptions(info *Info) (list []columns.Description) {
	for i, name := range k.names(k.labels) {
		d := columns.Description{Name: name, Label: true, Kind: columns.Category, Rows: k.rows, Different: len(k.classNames)}
		d.Range = few(k.classNames)
		if k.regression {
			d.Kind, d.Different, d.Range = columns.Number, -1, rangeOf(k.targets, i, len(k.labels), info.TargetScaling)
		}
		list = append(list, d)
	}
	return list
}

// rangeOf is the least and the greatest of every width-th number from i on.
func rangeOf(values []float32, i, width int, s *Scaling) string {
	row := slices.Clone(values[:width])
	low, high := row[i], row[i]
	for j := i; j < len(values); j += width {
		low, high = min(low, values[j]), max(high, values[j])
	}
	ends := make([]string, 2)
	for j, v := range []float32{low, high} {
		if row[i] = v; s != nil {
			s.Undo(row)
		}
		ends[j] = fmt.Sprintf("%.6g", row[i])
		copy(row, values[:width])
	}
	return ends[0] + " to " + ends[1]
}
