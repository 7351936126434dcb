package datasets

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// openCSV reads a table. One column holds classes, or one or several hold numbers to
// predict. The table is read as one of numbers up to the first field that is none.
func openCSV(ctx context.Context, s Spec) (*Dataset, error) {
	if err := s.CSV.check(); err != nil {
		return nil, err
	}
	if s.Like != nil {
		if s.Like.Columns != nil {
			return openKinds(ctx, s)
		}
		return openNumbers(ctx, s)
	}
	if s.Columns.Given() || s.Describe {
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
	in := csvInput{path: s.Path, opt: s.CSV, unit: s.UnitTarget, memory: s.Memory}
	if s.Like != nil {
		in.like = s.Like.Features
	}
	c, err := readCSV(ctx, in)
	if err != nil {
		return nil, err
	}
	t := &table{rows: c.rows, columns: []column{c.featureColumn()}}
	info := Info{Inputs: []Field{t.columns[0].field}, Features: c.names(c.features)}
	target, err := c.targetColumn(ctx, s, &info)
	if err != nil {
		return nil, err
	}
	t.columns = append(t.columns, target)
	info.Target = target.field
	options := []any{s.CSV, info.ClassNames}
	if s.ScaleTarget {
		options = append(options, "target")
	}
	if info.Fingerprint, err = fingerprint(ctx, s, options, t); err != nil {
		return nil, err
	}
	ds := &Dataset{Name: "csv " + s.Path}
	if ds.Train, ds.Val, err = splitRandomly(t, s, s.trainFraction(info.Fingerprint, 0.8)); err != nil {
		return nil, err
	}
	if s.Like == nil {
		width := len(c.features)
		ds.Notes = c.leaks(info.Features, func(row, i int) int32 { return int32(math.Float32bits(c.values[row*width+i])) })
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
		return newColumn(Field{"target", shape.F32(len(c.labels))}, shape.Bytes(c.targets)), nil
	}
	names := sortedClasses(c.classNames)
	if s.Like != nil {
		names = s.Like.ClassNames
	}
	err := c.renumber(ctx, c.path, names)
	if err == nil && s.Like == nil {
		err = checkClasses(c.path, names, c.rows)
	}
	info.ClassNames, info.Classes = names, len(names)
	if s.Like != nil {
		info.Classes = s.Like.Classes
	}
	return newColumn(Field{"target", shape.I32()}, shape.Bytes(c.classes)), err
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
	c, err := readCSV(ctx, csvInput{path: path, opt: s.CSV, predict: true, wanted: info.Features, memory: s.Memory})
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
	return &table{rows: c.rows, columns: []column{c.featureColumn()}}, nil
}

// check reports options that cannot be followed.
func (o CSVOptions) check() error {
	switch {
	case !slices.Contains([]string{"", HeaderAuto, HeaderYes, HeaderNo}, o.Header):
		return fmt.Errorf("%w: csv header %q: use %s, %s or %s", ErrSpec, o.Header, HeaderAuto, HeaderYes, HeaderNo)
	case !slices.Contains([]string{"", TaskClassification, TaskRegression}, o.Task):
		return fmt.Errorf("%w: csv task %q: use %s or %s", ErrSpec, o.Task, TaskClassification, TaskRegression)
	case o.Task != TaskRegression && len(o.Labels) > 1:
		return fmt.Errorf("%w: classification has one label column, not %d: use task %s", ErrSpec, len(o.Labels), TaskRegression)
	}
	return nil
}
