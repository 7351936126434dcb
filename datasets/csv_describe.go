package datasets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets/columns"
)

// find finds the kinds of the columns in the training part.
func (k *kindTable) find(ctx context.Context, s Spec, train *Part) (*columns.Finder, *columns.Fitted, error) {
	options, err := k.namedOptions(s.Columns)
	if err != nil {
		return nil, nil, k.place(err)
	}
	if err := k.describable(options); err != nil {
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
		err := k.each(ctx, k.used(k.readable(options)), func(row csvRow) error {
			if i++; i >= len(inTrain) {
				return k.changed()
			}
			if !inTrain[i] {
				return nil
			}
			for n, j := range k.features {
				fields[n] = row.Fields[j]
			}
			return finder.Add(fields, func(n int) string { return row.At(k.features[n]) })
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

// readable are the features without those that hold no texts and are left out by o: a list in JSON
// lines, say.
func (k *kindTable) readable(o columns.Options) []int {
	if k.table.Nested == nil {
		return k.features
	}
	kinds := map[string]columns.Kind{}
	for _, x := range o.Columns {
		kinds[x.Name] = x.Kind
	}
	return slices.DeleteFunc(slices.Clone(k.features), func(j int) bool {
		kind, own := kinds[k.header[j]]
		if !own {
			kind = kinds[columns.All]
		}
		return k.table.Nested[j] && kind == columns.Ignore
	})
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

// describable refuses options of columns that the table has and that are no features.
func (k *kindTable) describable(o columns.Options) error {
	for _, x := range o.Columns {
		j, ok := k.column(x.Name)
		switch {
		case !ok, x.Name == columns.All, slices.Contains(k.features, j):
		case slices.Contains(k.labels, j):
			return &columns.OptionError{Name: x.Name, Text: fmt.Sprintf("the column %.40q is the label, which data.columns does not describe: take it out of data.columns, or name another label with data.label", x.Name)}
		default:
			return &columns.OptionError{Name: x.Name, Text: fmt.Sprintf("the column %.40q is left out by data.ignore: take it out of data.ignore to use it, or out of data.columns", x.Name)}
		}
	}
	return nil
}

// NamedOptions is the options of a table's columns, by the names of columns that were given by number.
func NamedOptions(ctx context.Context, s Spec) ([]columns.Option, error) {
	k, err := newKindTable(ctx, csvInput{path: s.Path, opt: s.CSV, skip: s.SkipRows, memory: s.Memory}, s.Columns.Missing)
	if err != nil {
		return nil, err
	}
	o, err := k.namedOptions(s.Columns)
	return o.Columns, k.place(err)
}

// from are the columns of the file that go in.
func (k *kindTable) from(f *columns.Finder) []int {
	from := slices.Clone(f.Sources())
	for i, n := range from {
		from[i] = k.features[n]
	}
	return from
}

// DescribeTable describes the columns of a table, of all its rows, whichever is the label. It
// gives the table's format and path, too.
func DescribeTable(ctx context.Context, s Spec) (name string, list []columns.Description, err error) {
	if _, err := formatOf(s); err != nil {
		return "", nil, err
	}
	k, err := newKindTable(ctx, csvInput{path: s.Path, opt: s.CSV, skip: s.SkipRows, block: s.Block, memory: s.Memory}, s.Columns.Missing)
	if err != nil {
		return "", nil, err
	}
	ignored, err := k.csvColumns.find("ignored", "ignore", s.CSV.Ignore)
	if err != nil {
		return "", nil, err
	}
	for i := range k.width {
		if !slices.Contains(ignored, i) {
			k.features = append(k.features, i)
		}
	}
	defer func() { err = errors.Join(err, k.release()) }()
	if err := k.keep(s, k.features); err != nil {
		return "", nil, err
	}
	if err := k.readLabels(ctx); err != nil {
		return "", nil, err
	}
	all := &Part{table: &table{rows: k.rows}, count: k.rows}
	finder, fitted, err := k.find(ctx, s, all)
	if err != nil {
		return "", nil, err
	}
	rows, err := k.readCells(ctx, fitted, k.from(finder), func(i int) { finder.Allow(fitted, i) })
	if err != nil {
		return "", nil, err
	}
	err = rows.guard(func() error {
		list, err = finder.Measure(fitted, k.rows, s.Block, rows.all)
		return k.place(err)
	})
	return tableName(k.table), list, err
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
		if !k.regression {
			d.Range = columns.Shares(k.classNames, k.classCounts())
		}
		if k.regression {
			d.Kind, d.Different, d.Range = columns.Number, -1, rangeOf(k.targets, i, len(k.labels), info.TargetScaling)
		}
		if k.bits {
			d.Kind, d.Different, d.Range = columns.Boolean, 2, fmt.Sprintf("%.0f%% yes", 100*k.share(i))
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
	ends := make([]float32, 2)
	for j, v := range []float32{low, high} {
		if row[i] = v; s != nil {
			s.Undo(row)
		}
		ends[j] = row[i]
		copy(row, values[:width])
	}
	return columns.Range(ends[0], ends[1])
}
