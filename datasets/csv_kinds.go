package datasets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// A table in which not every field is a number is read several times: for its labels, for
// the kinds of its columns, and for its cells. So it takes four bytes of memory for a field,
// and never holds its text. Beside memory, the first reading keeps the texts in a file, and the
// others read that.

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
	asked   map[string]string // by the name of a column: how data.columns names it
	memory  int64             // most bytes that the cells may take; 0: no limit
	block   int64             // the cells are in a file; 0: in memory
	dropped []bool            // by row of the file: it has no label; nil: all have
	skipped int               // rows without a label
	unseen  []unseen          // by column that goes in, of a file for a model
	keys    *rowKeys          // that divide the rows; nil: none do
	texts   *os.File          // of a table beside memory, while it is opened; nil: its files are read
	// elsewhere notes that the cells are not in the folder of cached files; "": nothing is odd.
	elsewhere string
}

// openKinds reads a table with columns of any kind.
func openKinds(ctx context.Context, s Spec) (_ *Dataset, err error) {
	missing := s.Columns.Missing
	in := csvInput{path: s.Path, opt: s.CSV, skip: s.SkipRows, block: s.Block, unit: s.UnitTarget, memory: s.Memory, like: s.Like}
	if s.Like != nil {
		in.fitted, missing = s.Like.Columns, s.Like.Columns.Missing
	}
	k, err := newKindTable(ctx, in, missing)
	if err != nil {
		return nil, err
	}
	if err := k.choose(in); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.release()) }()
	if s.Like != nil {
		return k.openLike(ctx, s)
	}
	if err := k.keep(s, k.features, k.labels); err != nil {
		return nil, err
	}
	if err := k.readLabels(ctx); err != nil {
		return nil, err
	}
	if err := k.checkLabel(); err != nil {
		return nil, err
	}
	if k.keys, err = k.csvData.keys(ctx, s, k.each); err != nil {
		return nil, err
	}
	ds := &Dataset{Name: tableName(k.table)}
	if err := k.split(ds, &table{rows: k.rows}, s, s.splitOr(0.8)); err != nil {
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
	err = rows.guard(func() error { return k.measure(ctx, s, ds, finder, fitted, rows) })
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// measure completes what finder found in the training part, and the dataset.
func (k *kindTable) measure(ctx context.Context, s Spec, ds *Dataset, finder *columns.Finder, fitted *columns.Fitted, rows *cellRows) (err error) {
	ds.Columns, err = finder.Measure(fitted, ds.Train.count, s.Block, func(yield func([]int32)) {
		for i := range ds.Train.count {
			yield(rows.row(ds.Train.splitRow(i)))
		}
	})
	if err != nil {
		return k.place(err)
	}
	if ds.Options, err = finder.Resolved(fitted); err != nil {
		return k.place(err)
	}
	fitted.Header = k.header != nil
	leaks := k.leaks(fitted.ColumnNames(), func(row, i int) int32 { return rows.row(row)[i] })
	if err := k.finish(ctx, s, ds, fitted, rows); err != nil {
		return err
	}
	ds.first = slices.Concat(columns.Notes(ds.Columns), leaks, k.labelNotes(k.names(k.labels)[0]))
	ds.Notes = slices.Concat(ds.Notes, ds.first)
	ds.Columns = append(ds.Columns, k.labelDescriptions(&ds.Info)...)
	return nil
}

// split divides the rows of t into parts. Beside memory, a fraction divides each block alike, and a
// Division the whole table, whose training part has blocks of its own.
func (k *kindTable) split(ds *Dataset, t *table, s Spec, fraction float64) (err error) {
	if s.Block > 0 && (s.Division == nil || fraction == 1) {
		ds.Train, ds.Val, err = splitBlocks(t, s, fraction, k.blockRows(s))
		return err
	}
	if err = ds.split(t, s, fraction, k.keys); err == nil && s.Block > 0 {
		ds.Train.blocks = blocksOf(ds.Train.count, t.rows, k.blockRows(s))
	}
	return err
}

// blockRows is the rows of a block of the table.
func (k *kindTable) blockRows(s Spec) int {
	return blockRows(s.Block, len(k.features)+len(k.labels))
}

// openLike reads the table with the columns of a model to evaluate.
func (k *kindTable) openLike(ctx context.Context, s Spec) (*Dataset, error) {
	fitted := s.Like.Columns
	from, err := k.sources(fitted)
	if err != nil {
		return nil, err
	}
	if err := k.keep(s, from, k.labels); err != nil {
		return nil, err
	}
	if err := k.readLabels(ctx); err != nil {
		return nil, err
	}
	rows, err := k.readCells(ctx, fitted, from, nil)
	if err != nil {
		return nil, err
	}
	if k.keys, err = k.csvData.keys(ctx, s, k.each); err != nil {
		return nil, err
	}
	ds := &Dataset{Name: tableName(k.table), Train: &Part{table: &table{rows: k.rows}}}
	if ds.Notes = k.absent(fitted, from); !s.GoesOn { // else they are in the validation part, as before
		ds.Notes = append(ds.Notes, k.news(fitted)...)
	}
	return ds, rows.guard(func() error { return k.finish(ctx, s, ds, fitted, rows) })
}

// finish makes the dataset of the labels and cells.
func (k *kindTable) finish(ctx context.Context, s Spec, ds *Dataset, fitted *columns.Fitted, rows *cellRows) error {
	t, of := ds.Train.table, &cells{columns: fitted}
	t.columns, t.mapping = []column{cellColumn(rows.cells, of)}, rows.mapping
	info := Info{Inputs: []Field{t.columns[0].field}, Features: fitted.Names(), Columns: fitted, Labels: k.labelNames()}
	target, err := k.targetColumn(ctx, s, &info)
	if err != nil {
		return err
	}
	t.columns, info.Target = append(t.columns, target), target.field
	if t.texts, err = k.textsOf(ctx, s, k.each); err != nil {
		return err
	}
	if info.Fingerprint, err = k.print(ctx, s, &info, t); err != nil {
		return err
	}
	if s.Like != nil {
		if err := k.split(ds, t, s, s.trainFraction(info.Fingerprint, 0.8)); err != nil {
			return err
		}
	}
	if k.skipped > 0 {
		lack := "have no label"
		if len(k.labels) > 1 {
			lack = "lack one of the labels"
		}
		ds.Notes = append(ds.Notes, fmt.Sprintf("%s of %s %s and are left out", units.Thousands(k.skipped), units.Count(k.skipped+k.rows, "row"), lack))
	}
	if k.elsewhere != "" {
		ds.Notes = append(ds.Notes, k.elsewhere)
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
	if s.Block > 0 {
		options = append(options, "blocks", s.Block, k.blockRows(s)) // the rows of a block decide on the split and the order
	}
	return keyedPrint(ctx, s, options, k.keys, t)
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

// newKindTable begins to read a table: its names and its width.
func newKindTable(ctx context.Context, in csvInput, missing []string) (*kindTable, error) {
	k := &kindTable{memory: in.memory, block: in.block}
	k.missing = missing
	t, err := openTable(ctx, in, func(h headRows) bool {
		return isHeader(h.rows[0], h.second(), in.opt, in.wanted) || in.opt.Header != HeaderNo && (h.named(missing) || h.namesAll(in.fitted))
	})
	if err != nil {
		return nil, err
	}
	return k, k.begin(t, in)
}

// keep has the first reading of a table beside memory keep these columns and those that s names, so
// that the table's files are read once. The caller calls release.
func (k *kindTable) keep(s Spec, columns ...[]int) (err error) {
	if k.block == 0 {
		return nil
	}
	if k.texts, err = k.scratch(); err != nil {
		return err
	}
	used, names := k.used(columns...), slices.Clone(s.With)
	if d := s.Division; d != nil {
		names = append(names, d.By, d.Latest)
	}
	for _, name := range names {
		if j, ok := k.column(name); ok && name != "" {
			used[j] = true
		}
	}
	for j, nested := range k.table.Nested {
		used[j] = used[j] && !nested
	}
	k.table.Keep(k.texts, used)
	return nil
}

// release closes the file of what was kept.
func (k *kindTable) release() error {
	if k.texts == nil {
		return nil
	}
	return closeNameless(k.texts)
}

// each hands over the rows that have a label. used says which columns are read.
func (k *kindTable) each(ctx context.Context, used []bool, f func(row csvRow) error) error {
	i := 0
	err := k.table.Each(ctx, used, func(row csvRow) error {
		dropped := k.dropped != nil && i < len(k.dropped) && k.dropped[i]
		if i++; dropped {
			return nil
		}
		if len(row.Fields) != k.width {
			return k.changed()
		}
		return f(row)
	})
	if failed, ok := errors.AsType[*tabular.KeepError](err); ok {
		return unwritten(k.path, failed)
	}
	return err
}

// readLabels reads the labels. It counts the rows that have one.
func (k *kindTable) readLabels(ctx context.Context) error {
	file := 0
	err := k.each(ctx, k.used(k.labels), func(row csvRow) error {
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
		err = blame("label", fmt.Errorf("%w: %s: none of %s has a label: take another column as the label", ErrTooFew, k.path, units.Count(k.skipped, "row")))
	}
	return err
}

// unlabelled reports whether a row lacks a label. A class may be named like a word for a
// missing number, such as NA, so those count only if they were given.
func (k *kindTable) unlabelled(row csvRow) bool {
	for _, j := range k.labels {
		field := bytes.TrimSpace(row.Fields[j])
		if len(field) == 0 || (k.regression || k.missing != nil) && columns.IsMissing(k.missing, field) {
			return true
		}
	}
	return false
}

// changed is the error of a file that has other rows than a moment ago.
func (k *kindTable) changed() error {
	return k.table.Changed()
}

// place gives an error about a column its place in the file or in the config.
func (k *kindTable) place(err error) error {
	if field, ok := errors.AsType[*columns.FieldError](err); ok {
		name := ""
		if k.header != nil {
			name = fmt.Sprintf(" (column %q)", field.Column)
		}
		return fmt.Errorf("%w: %s%s: %s", ErrFormat, field.At, name, field.Text)
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

// readCells reads the cells of the columns that go in, from their columns in the file; -1 is
// one that the file lacks. allow is told of each column that a row lacks and may not lack yet;
// nil: that is an error.
func (k *kindTable) readCells(ctx context.Context, f *columns.Fitted, from []int, allow func(i int)) (_ *cellRows, err error) {
	out, err := k.newCells(len(f.Columns))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	k.unseen = make([]unseen, out.width)
	cells := make([]int32, out.width)
	cellOf := f.CellOfFile
	if allow != nil {
		cellOf = f.Cell
	}
	err = k.each(ctx, k.used(from), func(row csvRow) error {
		for i, j := range from {
			var field []byte
			if j >= 0 {
				field = row.Fields[j]
			}
			if allow != nil && !f.Columns[i].Optional && f.Lacks(field) {
				allow(i)
			}
			cell, err := cellOf(i, field)
			if err == nil && f.New(i, cell) && isValue(row, j) {
				cell, err = cellOf(i, f.Spelt(i, field))
			}
			if err != nil {
				if allow == nil {
					err = withOthers(err, row, f, i+1, from)
				}
				return k.cellError(row, j, f.Columns[i].Name, err)
			}
			if allow == nil && f.Unseen(i, cell) {
				k.unseen[i].add(field)
			}
			cells[i] = cell
		}
		return out.add(cells)
	})
	if err == nil {
		err = out.end(k.rows)
	}
	if errors.Is(err, errOtherRows) {
		err = k.changed()
	}
	return out, err
}

// withOthers adds to the error of a row the first faults of its columns from index i on, so that the row is mended at once.
func withOthers(err error, row csvRow, f *columns.Fitted, i int, from []int) error {
	const most = 4
	for told := 1; i < len(from) && told < most; i++ {
		if from[i] < 0 {
			continue
		}
		if _, also := f.CellOfFile(i, row.Fields[from[i]]); also != nil {
			err = fmt.Errorf("%w; column %q: %w", err, f.Columns[i].Name, also)
			told++
		}
	}
	return err
}

// cellError names the place of a field. The file may lack its column.
func (k *kindTable) cellError(row csvRow, j int, name string, err error) error {
	if j < 0 {
		return fmt.Errorf("%w: %s lacks the column %q: %w", ErrFormat, k.path, name, err)
	}
	return k.fieldError(row, j, err.Error())
}
