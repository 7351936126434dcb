package datasets

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/engine/shape"
)

// openCSV reads a table of numbers with, in one column, classes, or in one or
// several, numbers to predict.
func openCSV(ctx context.Context, s Spec) (*Dataset, error) {
	if err := s.CSV.check(); err != nil {
		return nil, err
	}
	c := &csvFile{path: s.Path, opt: s.CSV, unit: s.UnitTarget}
	if s.Like != nil {
		c.like = s.Like.Features
	}
	if err := c.read(ctx, nil); err != nil {
		return nil, err
	}
	t := &table{rows: c.rows, columns: []column{c.featureColumn()}}
	info := Info{Inputs: []Field{t.columns[0].field}, Features: c.names(c.features)}
	target, err := c.targetColumn(s, &info)
	if err != nil {
		return nil, err
	}
	t.columns = append(t.columns, target)
	info.Target = target.field
	options := []any{s.CSV, info.ClassNames}
	if s.ScaleTarget {
		options = append(options, "target")
	}
	info.Fingerprint = fingerprint(s, options, t)
	ds := &Dataset{Name: "csv " + s.Path}
	if ds.Train, ds.Val, err = splitRandomly(t, s, s.part(info.Fingerprint, 0.8)); err != nil {
		return nil, err
	}
	c.scale(s, ds.Train, &info)
	ds.Info = info
	return ds, nil
}

// targetColumn is the column of classes or of numbers.
func (c *csvFile) targetColumn(s Spec, info *Info) (column, error) {
	if s.CSV.Task == TaskRegression {
		return newColumn(Field{"target", shape.F32(len(c.labels))}, shape.Bytes(c.targets)), nil
	}
	ids, err := c.classIDs(s.Like, info)
	return newColumn(Field{"target", shape.I32()}, shape.Bytes(ids)), err
}

// scale standardises features and targets: as measured on the training part,
// or as those were that a model was trained on.
func (c *csvFile) scale(s Spec, train *Part, info *Info) {
	switch {
	case s.Like != nil && s.Like.Scaling != nil:
		s.Like.Scaling.apply(c.values)
	case s.Like == nil && s.CSV.Standardize:
		info.Scaling = fitScaling(train, c.values, len(c.features))
		info.Scaling.apply(c.values)
	}
	switch {
	case s.CSV.Task != TaskRegression:
	case s.Like != nil && s.Like.TargetScaling != nil:
		s.Like.TargetScaling.apply(c.targets)
	case s.Like == nil && s.ScaleTarget:
		info.TargetScaling = fitScaling(train, c.targets, len(c.labels))
		info.TargetScaling.apply(c.targets)
	}
}

// classIDs numbers the classes as a model's, or as their names have it, and
// says how many there are.
func (c *csvFile) classIDs(like *Info, info *Info) ([]int32, error) {
	var ids []int32
	if like == nil {
		ids, info.ClassNames = numberClasses(c.classes)
		info.Classes = len(info.ClassNames)
		return ids, c.checkClasses(info.ClassNames)
	}
	info.ClassNames, info.Classes = like.ClassNames, like.Classes
	index := map[string]int32{}
	for i, name := range like.ClassNames {
		index[name] = int32(i)
	}
	for i, name := range c.classes {
		id, ok := index[name]
		if !ok {
			return nil, blame("label", fmt.Errorf("%w: %s: sample %d is of class %q, and the model was trained on %s", ErrFormat, c.path, i, name, few(like.ClassNames)))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// checkClasses refuses classes that cannot be meant as such.
func (c *csvFile) checkClasses(names []string) error {
	if len(names) == 1 {
		return blame("label", fmt.Errorf("%w: %s: every row is of class %q, so there is nothing to tell apart: add rows of another class, or take another column as the label",
			ErrTooFew, c.path, names[0]))
	}
	whole, numbers := true, true
	for _, n := range names {
		v, err := strconv.ParseFloat(n, 64)
		numbers = numbers && err == nil
		whole = whole && v == math.Trunc(v)
	}
	if numbers && len(names) > mostNumbers && (!whole || 2*len(names) > c.rows) {
		return blame("task", fmt.Errorf("%w: %s: the label column holds %d different numbers in %d rows, such as %s, and the task is classification: set data.task to %s to predict the number, or take another column as the label",
			ErrSpec, c.path, len(names), c.rows, few(names), TaskRegression))
	}
	return nil
}

// mostNumbers is how many classes may have numbers as names that are not
// whole, or as many as rows: more are a quantity.
const mostNumbers = 10

// few is the first few of many names.
func few(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// csvInputs reads the features that info names: by name where the file has
// those names in a header; otherwise it has the features alone, or the columns
// of the training file.
func csvInputs(ctx context.Context, s Spec, info *Info, path string) (*table, error) {
	if err := s.CSV.check(); err != nil {
		return nil, err
	}
	c := &csvFile{path: path, opt: s.CSV}
	if err := c.read(ctx, info.Features); err != nil {
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
