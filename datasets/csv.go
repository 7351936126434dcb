package datasets

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/engine/shape"
)

// openCSV reads a table of numbers with, in one column, classes, or in one or
// several, numbers to predict.
func openCSV(ctx context.Context, s Spec) (*Dataset, error) {
	if err := s.CSV.check(); err != nil {
		return nil, err
	}
	c, err := readCSV(ctx, s.Path, s.CSV, nil)
	if err != nil {
		return nil, err
	}
	t := &table{rows: c.rows, columns: []column{c.featureColumn()}}
	info := Info{Inputs: []Field{t.columns[0].field}, Features: c.names(c.features)}
	if s.CSV.Task == TaskRegression {
		f := Field{"target", shape.F32(len(c.labels))}
		t.columns = append(t.columns, newColumn(f, shape.Bytes(c.targets)))
	} else {
		var ids []int32
		ids, info.ClassNames = numberClasses(c.classes)
		info.Classes = len(info.ClassNames)
		if info.Classes == 1 {
			return nil, fmt.Errorf("%w: %s: every row is of class %q, so there is nothing to tell apart: add rows of another class, or take another column as the label",
				ErrTooFew, s.Path, info.ClassNames[0])
		}
		t.columns = append(t.columns, newColumn(Field{"target", shape.I32()}, shape.Bytes(ids)))
	}
	info.Target = t.columns[1].field
	info.Fingerprint = fingerprint(s, [2]any{s.CSV, info.ClassNames}, t)
	ds := &Dataset{Name: "csv " + s.Path}
	if ds.Train, ds.Val, err = splitRandomly(t, s, s.split(0.8)); err != nil {
		return nil, err
	}
	if s.CSV.Standardize {
		info.Scaling = fitScaling(ds.Train, c.values, len(c.features))
		info.Scaling.apply(c.values)
	}
	ds.Info = info
	return ds, nil
}

// csvInputs reads the features that info names: by name where the file has
// those names in a header; otherwise it has the features alone, or the columns
// of the training file.
func csvInputs(ctx context.Context, s Spec, info *Info, path string) (*table, error) {
	if err := s.CSV.check(); err != nil {
		return nil, err
	}
	c, err := readCSV(ctx, path, s.CSV, info.Features)
	if err != nil {
		return nil, err
	}
	if len(c.features) != len(info.Features) {
		return nil, fmt.Errorf("%w: %s has %d features, the model was trained on %d", ErrFormat, path, len(c.features), len(info.Features))
	}
	if info.Scaling != nil {
		if err := info.Scaling.check(len(c.features)); err != nil {
			return nil, err
		}
		info.Scaling.apply(c.values)
	}
	return &table{rows: c.rows, columns: []column{c.featureColumn()}}, nil
}

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

// numberClasses numbers label texts in the order of their sorted names:
// numerically if every one is a whole number, bytewise otherwise.
func numberClasses(labels []string) ([]int32, []string) {
	index := map[string]int32{}
	var names []string
	for _, l := range labels {
		if _, known := index[l]; !known {
			index[l] = 0
			names = append(names, l)
		}
	}
	slices.Sort(names)
	if numbers := wholeNumbers(names); numbers != nil {
		slices.SortStableFunc(names, func(a, b string) int { return numbers[a] - numbers[b] })
	}
	for i, n := range names {
		index[n] = int32(i)
	}
	ids := make([]int32, len(labels))
	for i, l := range labels {
		ids[i] = index[l]
	}
	return ids, names
}

// wholeNumbers is the value of each name, nil unless all are whole numbers.
func wholeNumbers(names []string) map[string]int {
	values := make(map[string]int, len(names))
	for _, n := range names {
		v, err := strconv.ParseInt(n, 10, 32)
		if err != nil {
			return nil
		}
		values[n] = int(v)
	}
	return values
}
