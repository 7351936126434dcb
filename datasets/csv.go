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
	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/engine/shape"
)

// openCSV reads a table. One column holds classes, or one or several hold numbers to
// predict. The table is read as one of numbers up to the first field that is none.
func openCSV(ctx context.Context, s Spec) (*Dataset, error) {
	if err := s.CSV.check(); err != nil {
		return nil, err
	}
	if s.Like != nil {
		switch {
		case s.Like.Columns != nil:
			return openKinds(ctx, s)
		case s.Block > 0:
			return nil, blame("memory", fmt.Errorf("%w: the model was trained on a table in memory, and data.memory gives its rows another order: leave it as it was, or begin another run", ErrSpec))
		}
		return openNumbers(ctx, s)
	}
	if s.Columns.Given() || s.Describe || s.Block > 0 {
		return openKinds(ctx, s)
	}
	ds, err := openNumbers(ctx, s)
	if errors.Is(err, errKinds) {
		return openKinds(ctx, s)
	}
	return ds, err
}

// openNumbers reads a table of numbers.
func openNumbers(ctx context.Context, s Spec) (*Dataset, error) {
	in := csvInput{path: s.Path, opt: s.CSV, skip: s.SkipRows, unit: s.UnitTarget, memory: s.Memory, like: s.Like}
	if s.Like != nil {
		in.fitted = s.Like.Row()
	}
	c, err := readCSV(ctx, in)
	if err != nil {
		return nil, err
	}
	if s.Like == nil {
		if err := c.checkLabel(); err != nil {
			return nil, err
		}
	}
	t := &table{rows: c.rows, columns: []column{c.featureColumn()}}
	info := Info{Inputs: []Field{t.columns[0].field}, Features: c.names(c.features), Header: c.header != nil, Labels: c.labelNames()}
	target, err := c.targetColumn(ctx, s, &info)
	if err != nil {
		return nil, err
	}
	t.columns = append(t.columns, target)
	info.Target = target.field
	if t.texts, err = c.textsOf(ctx, s, c.table.Each); err != nil {
		return nil, err
	}
	options := []any{s.CSV, info.ClassNames}
	if s.ScaleTarget {
		options = append(options, "target")
	}
	keys, err := c.keys(ctx, s, c.table.Each)
	if err != nil {
		return nil, err
	}
	if info.Fingerprint, err = keyedPrint(ctx, s, options, keys, t); err != nil {
		return nil, err
	}
	ds := &Dataset{Name: tableName(c.table)}
	if err := ds.split(t, s, s.trainFraction(info.Fingerprint, 0.8), keys); err != nil {
		return nil, err
	}
	if s.Like == nil {
		width := len(c.features)
		ds.Notes = c.leaks(info.Features, func(row, i int) int32 { return int32(math.Float32bits(c.values[row*width+i])) })
		ds.Notes = append(ds.Notes, c.labelNotes(c.names(c.labels)[0])...)
		ds.first = ds.Notes
	}
	if err := standardize(ctx, s, c, ds.Train, &info); err != nil {
		return nil, err
	}
	ds.Info = info
	return ds, nil
}

// targetColumn is the column of numbers, or of classes, which it adds to info.
func (c *csvData) targetColumn(ctx context.Context, s Spec, info *Info) (column, error) {
	if c.regression {
		if c.bits || len(c.labels) > 1 {
			info.TargetNames = c.names(c.labels)
		}
		return newColumn(Field{"target", shape.F32(len(c.labels))}, shape.Bytes(c.targets)), nil
	}
	target := Field{"target", shape.I32()}
	if s.Like != nil {
		info.ClassNames, info.Classes = s.Like.ClassNames, s.Like.Classes
		return newColumn(target, shape.Bytes(c.classes)), nil
	}
	names := sortedClasses(c.classNames)
	info.ClassNames, info.Classes = names, len(names)
	return newColumn(target, shape.Bytes(c.classes)), c.renumber(ctx, names)
}

// standardize scales features and targets in place, as s asks for: as measured
// on the training part, or as s.Like has them. It ends early once ctx is done.
func standardize(ctx context.Context, s Spec, c *csvData, train *Part, info *Info) (err error) {
	like := s.Like
	if like == nil {
		like = info
		if s.CSV.Standardize {
			info.Scaling, err = fitScaling(ctx, train, len(c.features), rowsOf(c.values, len(c.features)))
		}
		if err == nil && c.regression && s.ScaleTarget {
			info.TargetScaling, err = fitScaling(ctx, train, len(c.labels), rowsOf(c.targets, len(c.labels)))
		}
	}
	if err == nil && like.Scaling != nil {
		err = like.Scaling.apply(ctx, c.values)
	}
	if err == nil && like.TargetScaling != nil && c.regression {
		err = like.TargetScaling.apply(ctx, c.targets)
	}
	return err
}

// rowsOf gives the rows of numbers.
func rowsOf(values []float32, width int) func(row int) []float32 {
	return func(row int) []float32 { return values[row*width : (row+1)*width] }
}

// csvInputs reads the features that info names. A file without their names has
// the features alone, or the columns of the training file.
func csvInputs(ctx context.Context, s Spec, info *Info, path string) (*table, error) {
	if err := s.CSV.check(); err != nil {
		return nil, err
	}
	if info.Columns != nil {
		return kindInputs(ctx, s, info, path)
	}
	c, err := readCSV(ctx, csvInput{path: path, opt: s.CSV, skip: s.SkipRows, predict: true, wanted: info.Features, fitted: info.Row(), memory: s.Memory})
	if err != nil {
		return nil, err
	}
	if len(c.features) != len(info.Features) {
		return nil, fmt.Errorf("%w: %s has %d features, but the model was trained on %d: use a file with the columns of the training data", ErrFormat, path, len(c.features), len(info.Features))
	}
	if info.Scaling != nil {
		if err := info.Scaling.check(len(c.features)); err != nil {
			return nil, err
		}
		if err := info.Scaling.apply(ctx, c.values); err != nil {
			return nil, err
		}
	}
	c.noteOrder(s, info.Row())
	texts, err := c.textsOf(ctx, s, c.table.Each)
	return &table{rows: c.rows, columns: []column{c.featureColumn()}, texts: texts}, err
}

// check reports options that cannot be followed.
func (o CSVOptions) check() error {
	switch {
	case !slices.Contains([]string{"", HeaderAuto, HeaderYes, HeaderNo}, o.Header):
		return fmt.Errorf("%w: csv header %q: use %s, %s or %s", ErrSpec, o.Header, HeaderAuto, HeaderYes, HeaderNo)
	case !slices.Contains([]string{"", TaskClassification, TaskRegression, TaskMultilabel}, o.Task):
		return fmt.Errorf("%w: csv task %q: use %s, %s or %s", ErrSpec, o.Task, TaskClassification, TaskRegression, TaskMultilabel)
	case !o.numbers() && len(o.Labels) > 1:
		return fmt.Errorf("%w: classification has one label column, not %d: use task %s or %s", ErrSpec, len(o.Labels), TaskRegression, TaskMultilabel)
	}
	return nil
}

// numbers reports whether labels are numbers, and not classes.
func (o CSVOptions) numbers() bool { return o.Task == TaskRegression || o.Task == TaskMultilabel }

// csvData holds the contents of a CSV file.
type csvData struct {
	table *tabular.Table
	csvColumns
	csvClasses
	regression bool     // labels are numbers; else classes
	bits       bool     // and each number is 0 or 1
	unit       bool     // numbers to predict must lie from 0 to 1
	missing    []string // as in columns.Options; nil in a table of numbers
	rows       int
	values     []float32 // [rows, features]
	targets    []float32 // [rows, labels], for regression
}

// csvInput describes a CSV file to read.
type csvInput struct {
	path  string
	opt   CSVOptions
	skip  int   // lines above the header of each file
	block int64 // of a table beside memory; else 0
	unit  bool
	// predict reads the features alone: those named wanted.
	predict bool
	wanted  []string
	fitted  *columns.Fitted // the columns of a model; nil: there is none
	like    *Info           // the data of a model to evaluate; nil: there is none
	memory  int64           // most bytes that the numbers may take; 0: no limit
}

// readCSV reads a table of numbers.
func readCSV(ctx context.Context, in csvInput) (*csvData, error) {
	t, err := openTable(ctx, in, func(h headRows) bool {
		return isHeader(h.rows[0], h.second(), in.opt, in.wanted) || in.opt.Header != HeaderNo && h.namesAll(in.fitted)
	})
	if err != nil {
		return nil, err
	}
	c := &csvData{}
	if err := c.begin(t, in); err != nil {
		return nil, err
	}
	if err := c.chooseColumns(in); err != nil {
		return nil, err
	}
	return c, c.readAll(ctx, in.memory)
}

// reserve makes room for the rows, or refuses a table that needs more than so much memory.
func (c *csvData) reserve(ctx context.Context, memory int64) error {
	size, err := c.table.Measure(ctx)
	if err != nil {
		return err
	}
	most := func(columns int) int64 { return min(size.Rows*int64(columns), size.Fields) }
	if err := c.fits(4*most(len(c.features)+len(c.labels)), memory); err != nil {
		return err
	}
	c.values = withRoom(c.values, most(len(c.features)))
	if c.regression {
		c.targets = withRoom(c.targets, most(len(c.labels)))
	} else {
		c.classes = withRoom(c.classes, most(len(c.labels)))
	}
	return nil
}

// withRoom is a slice with room for n elements in all.
func withRoom[T any](s []T, n int64) []T {
	return append(make([]T, 0, max(int64(len(s)), n)), s...)
}

// chooseColumns decides which columns are read.
func (c *csvData) chooseColumns(in csvInput) error {
	if in.predict {
		return c.chooseInputs(in)
	}
	if err := c.choose(in); err != nil || in.fitted == nil {
		return err
	}
	return c.chooseLike(in.fitted)
}

// headWords is the rows that are read before memory is reserved: a table with words has one among
// them, as a rule.
const headWords = 2

// readAll reads all rows. It keeps four bytes for each number or label, and one row of text at a
// time.
func (c *csvData) readAll(ctx context.Context, memory int64) error {
	return c.table.Each(ctx, c.used(c.features, c.labels), func(row csvRow) error {
		if c.rows == headWords {
			if err := c.reserve(ctx, memory); err != nil {
				return err
			}
		}
		return c.add(row)
	})
}

// add adds one row.
func (c *csvData) add(row csvRow) error {
	for _, j := range c.features {
		v, err := c.number(row, j)
		if err != nil {
			return err
		}
		c.values = append(c.values, v)
	}
	for _, j := range c.labels {
		if err := c.addLabel(row, j); err != nil {
			return err
		}
	}
	c.rows++
	return nil
}

func (c *csvData) addLabel(row csvRow, j int) error {
	if !c.regression {
		return c.addClass(&c.csvColumns, row, j)
	}
	read := c.number
	if c.bits {
		read = c.bit
	}
	v, err := read(row, j)
	if err != nil {
		return blame("task", err)
	}
	if c.unit && !(v >= 0 && v <= 1) {
		return c.fieldError(row, j, notUnit(v))
	}
	c.targets = append(c.targets, v)
	return nil
}

// bit reads the label in column j, which is 0 or 1 or a word for that.
func (c *csvData) bit(row csvRow, j int) (float32, error) {
	text := bytes.TrimSpace(row.Fields[j])
	yes, ok := columns.Truth(text)
	switch {
	case len(text) == 0:
		return 0, ofKinds(c.fieldError(row, j, "empty label: fill it in or take the row out"))
	case !ok:
		advice := "correct it"
		if !c.trained {
			advice += ", or take the column off the labels"
		}
		err := c.fieldError(row, j, fmt.Sprintf("%.40q is neither 0 nor 1, nor a word for one such as yes and no, and the task is multilabel: %s", text, advice))
		if columns.IsMissing(nil, text) {
			err = ofKinds(err)
		}
		return 0, err
	case yes:
		return 1, nil
	}
	return 0, nil
}

// number reads the number in column j.
func (c *csvData) number(row csvRow, j int) (float32, error) {
	text := bytes.TrimSpace(row.Fields[j])
	if len(text) == 0 {
		advice := "fill it in"
		if !c.trained {
			advice += " or ignore the column"
		}
		return 0, ofKinds(c.fieldError(row, j, "empty field: "+advice))
	}
	v, err := strconv.ParseFloat(string(text), 32)
	if errors.Is(err, strconv.ErrRange) {
		return 0, c.fieldError(row, j, fmt.Sprintf("%.40q is beyond the range of float32, ±%.4g: scale the column, or take the row out", text, math.MaxFloat32))
	}
	if err != nil {
		advice := "ignore the column, or name it as the label"
		switch isLabel := slices.Contains(c.labels, j); {
		case isLabel && c.trained:
			advice = fmt.Sprintf("the column is the label: correct it, take the row out or, if it stands for a missing value, train anew with data.missing: %s", columns.MissingList(c.missing, string(text)))
		case c.trained:
			advice = "correct it"
		case isLabel:
			other := "to tell classes apart, set data.task to " + TaskClassification
			if len(c.labels) > 1 { // which classification has not
				other = "if each label is 0 or 1, or yes and no, set data.task to " + TaskMultilabel
			}
			advice = fmt.Sprintf("the column is the label, and the task is regression: if it stands for a missing value, write data.missing: %s; %s; otherwise correct it", columns.MissingList(c.missing, string(text)), other)
		}
		err := c.fieldError(row, j, fmt.Sprintf("%.40q is not a number: %s", text, advice))
		if columns.IsMissing(nil, text) || !slices.Contains(c.labels, j) {
			err = ofKinds(err)
		}
		return 0, err
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, ofKinds(c.fieldError(row, j, fmt.Sprintf("%q is not finite: take the row out, or replace the number", text)))
	}
	return float32(v), nil
}

// leaks warns of features that tell a label row for row. at gives a feature's value in a
// row, as four bytes.
func (c *csvData) leaks(names []string, at func(row, feature int) int32) (warnings []string) {
	if c.rows < leastToTell {
		return nil
	}
	labels := c.names(c.labels)
	for i, name := range names {
		var told []string
		for l, label := range labels {
			if c.tells(l, func(row int) int32 { return at(row, i) }) {
				told = append(told, label)
			}
		}
		if told != nil {
			warnings = append(warnings, fmt.Sprintf("column %q equals the label %s row for row: the model would only copy it; leave it out with data.ignore unless that is meant",
				name, strings.Join(told, " and the label ")))
		}
	}
	return shortened(warnings, "and %d other columns that equal a label row for row")
}

// leastToTell is the rows from which on it is no chance that a feature equals the label.
const leastToTell = 32

// tells reports whether values, as four bytes each, are those of label l: the number itself, or
// one value for each class. A label that never changes is told by nothing.
func (c *csvData) tells(l int, at func(row int) int32) bool {
	width := len(c.labels)
	switch {
	case c.bits:
		return oneToOne(c.rows, at, func(row int) int32 { return int32(c.targets[row*width+l]) })
	case !c.regression:
		return oneToOne(c.rows, at, func(row int) int32 { return c.classes[row] })
	}
	changes := false
	for row := range c.rows {
		number := c.targets[row*width+l]
		if math.Float32frombits(uint32(at(row))) != number {
			return false
		}
		changes = changes || number != c.targets[l]
	}
	return changes
}

// oneToOne reports whether each of several values stands for one class, and each class for one
// value.
func oneToOne(rows int, value, class func(row int) int32) bool {
	classOf, valueOf := map[int32]int32{}, map[int32]int32{}
	for row := range rows {
		v, now := value(row), class(row)
		was, seen := classOf[v]
		if of, known := valueOf[now]; seen != known || seen && (was != now || of != v) {
			return false
		}
		classOf[v], valueOf[now] = now, v
	}
	return len(valueOf) > 1
}

// featureColumn is the table's column of inputs.
func (c *csvData) featureColumn() column {
	return newColumn(Field{"input", shape.F32(len(c.features))}, shape.Bytes(c.values))
}
