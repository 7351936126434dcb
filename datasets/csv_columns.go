package datasets

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tabular"
)

// csvColumns tells the columns of a CSV file apart.
type csvColumns struct {
	path     string         // for errors
	header   []string       // the names of all columns; nil if the file has no header
	named    map[string]int // the column of each name of header
	width    int            // number of columns
	features []int          // feature columns
	labels   []int          // label columns; none when reading for prediction
}

// isHeader reports whether the first row names the columns. It does if Header
// says so, if it has a name that an option or wanted names, if it has a word
// above a number, or if it is the only row and has no number.
func isHeader(first, second []string, o CSVOptions, wanted []string) bool {
	switch o.Header {
	case HeaderYes:
		return true
	case HeaderNo:
		return false
	}
	if second == nil && !slices.ContainsFunc(first, isNumber) {
		return true
	}
	given := setOf(slices.Concat(o.Labels, o.Ignore, wanted))
	for i, name := range first {
		if isNumber(name) {
			continue
		}
		if given[name] {
			return true
		}
		if second != nil && i < len(second) && isNumber(second[i]) {
			return true
		}
	}
	return false
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// setOf is the set of some values.
func setOf[T comparable](values []T) map[T]bool {
	set := make(map[T]bool, len(values))
	for _, v := range values {
		set[v] = true
	}
	return set
}

// nameColumns fills named. It refuses names that are not UTF-8, and one that two
// columns have.
func (c *csvColumns) nameColumns() error {
	c.named = make(map[string]int, len(c.header))
	for i, name := range c.header {
		if !utf8.ValidString(name) {
			return fmt.Errorf("%w: %s: the name of column %d in the header, %.40q, is not UTF-8: save the file as UTF-8", ErrFormat, c.path, i, name)
		}
		if _, twice := c.named[name]; twice {
			return fmt.Errorf("%w: %s: column name %q appears twice in the header: rename one", ErrFormat, c.path, name)
		}
		c.named[name] = i
	}
	return nil
}

// choose decides which columns are labels and which are features. like has
// the features of a model to evaluate. If it is nil, every column is a feature
// that is neither a label nor ignored.
func (c *csvData) choose(o CSVOptions, like *columns.Fitted) (err error) {
	labels := o.Labels
	if len(labels) == 0 {
		labels = []string{"-1"}
	}
	if c.labels, err = c.find("label", "label", labels); err != nil {
		return err
	}
	ignored, err := c.find("ignored", "ignore", o.Ignore)
	if err != nil {
		return err
	}
	isLabel, isIgnored := setOf(c.labels), setOf(ignored)
	for i, j := range ignored {
		if isLabel[j] {
			return blame("ignore", fmt.Errorf("%w: %s: column %q is ignored and is the label, which is the last column unless given: take it off the ignored ones, or give another label",
				ErrSpec, c.path, o.Ignore[i]))
		}
	}
	for i := range c.width {
		if !isLabel[i] && !isIgnored[i] {
			c.features = append(c.features, i)
		}
	}
	if err := c.chooseLike(like); err != nil {
		return err
	}
	if len(c.features) == 0 {
		return fmt.Errorf("%w: %s: no feature column is left of %d: ignore fewer, or add one beside the label", ErrFormat, c.path, c.width)
	}
	return nil
}

// chooseLike takes a model's features by name, if both have names. Otherwise it
// checks that there are as many.
func (c *csvData) chooseLike(like *columns.Fitted) error {
	if like == nil {
		return nil
	}
	if c.byName(like) {
		return c.chooseNamed(like.ColumnNames())
	}
	if len(c.features) != len(like.Columns) {
		return fmt.Errorf("%w: %s has %d features, but the model was trained on %d: use a file with the columns of the training data", ErrFormat, c.path, len(c.features), len(like.Columns))
	}
	return nil
}

// chooseInputs takes the features to predict from: the wanted ones by name, if
// both have names; else all columns, if there are as many as wanted; else the
// features that choose takes.
func (c *csvData) chooseInputs(o CSVOptions, wanted *columns.Fitted) error {
	if c.byName(wanted) {
		return c.chooseNamed(wanted.ColumnNames())
	}
	if c.width < len(wanted.Columns) {
		return fmt.Errorf("%w: %s has %d columns, but the model was trained on %d features: use a file with the columns of the training data", ErrFormat, c.path, c.width, len(wanted.Columns))
	}
	if c.width != len(wanted.Columns) {
		err := c.choose(o, nil)
		c.labels = nil
		return err
	}
	for i := range c.width {
		c.features = append(c.features, i)
	}
	return nil
}

// hasNames reports whether features have names. In a file without a header they
// have numbers instead.
func hasNames(features []string) bool {
	return slices.ContainsFunc(features, func(name string) bool { return !isNumber(name) })
}

// chooseNamed takes the features of those names.
func (c *csvColumns) chooseNamed(names []string) error {
	c.features = nil
	for _, name := range names {
		i, ok := c.named[name]
		if !ok {
			return fmt.Errorf("%w: %s lacks the column %q that the model was trained on; it has %s", ErrFormat, c.path, name, c.describe())
		}
		c.features = append(c.features, i)
	}
	return nil
}

// find turns names and numbers into columns. use and option describe them in
// errors.
func (c *csvColumns) find(use, option string, names []string) ([]int, error) {
	var found []int
	seen := map[int]bool{}
	for _, name := range names {
		i, ok := c.column(name)
		if !ok {
			return nil, blame(option, fmt.Errorf("%w: %s: there is no %s column %q among %s", ErrSpec, c.path, use, name, c.describe()))
		}
		if seen[i] {
			return nil, blame(option, fmt.Errorf("%w: %s: %s column %q is named twice: name it once", ErrSpec, c.path, use, name))
		}
		seen[i] = true
		found = append(found, i)
	}
	return found, nil
}

// column is the column of that name or else of that number, which counts from
// the end if it is negative. ok is false if there is none.
func (c *csvColumns) column(name string) (i int, ok bool) {
	if i, ok = c.named[name]; ok {
		return i, true
	}
	i, err := strconv.Atoi(name)
	if i < 0 {
		i += c.width
	}
	return i, err == nil && i >= 0 && i < c.width
}

// csvRow is a row of a table.
type csvRow = *tabular.Row

// used says which columns are read.
func (c *csvColumns) used(columns ...[]int) []bool {
	used := make([]bool, c.width)
	for _, list := range columns {
		for _, j := range list {
			if j >= 0 {
				used[j] = true
			}
		}
	}
	return used
}

// describe names the first few columns, for errors.
func (c *csvColumns) describe() string {
	if c.header == nil {
		return fmt.Sprintf("%d columns (the file has no header)", c.width)
	}
	return few(c.header)
}

// names gives the names of columns, or their numbers in a file without a header.
func (c *csvColumns) names(columns []int) []string {
	names := make([]string, len(columns))
	for i, j := range columns {
		if names[i] = strconv.Itoa(j); c.header != nil {
			names[i] = c.header[j]
		}
	}
	return names
}

// fieldError names the position of the field in column j.
func (c *csvColumns) fieldError(row csvRow, j int, msg string) error {
	name := ""
	if c.header != nil {
		name = fmt.Sprintf(" (column %q)", c.header[j])
	}
	return fmt.Errorf("%w: %s%s: %s", ErrFormat, row.At(j), name, msg)
}

// mostClasses bounds the classes of a CSV file, whose names are kept. More are a
// quantity or a key, and a model with an output for each would be too large.
const mostClasses = 1 << 20

// csvClasses are the labels of a CSV file's rows, for classification.
type csvClasses struct {
	classes    []int32  // [rows]
	classNames []string // by class; until they are numbered, in the order of their first rows
	classOf    map[string]int32
}

// addClass adds the class of a row, which column j names.
func (c *csvClasses) addClass(in *csvColumns, row csvRow, j int) error {
	name := bytes.TrimSpace(row.Fields[j])
	id, known := c.classOf[string(name)]
	switch {
	case known:
	case len(name) == 0:
		return ofKinds(in.fieldError(row, j, "empty label: fill it in or take the row out"))
	case !utf8.Valid(name):
		return in.fieldError(row, j, fmt.Sprintf("%.40q is not UTF-8: save the file as UTF-8", name))
	case len(c.classNames) == mostClasses:
		return blame("task", in.fieldError(row, j, fmt.Sprintf("%.40q is the class number %d, and the limit is %d: set data.task to %s to predict a number, or take another column as the label",
			name, mostClasses+1, mostClasses, TaskRegression)))
	default:
		if c.classOf == nil {
			c.classOf = map[string]int32{}
		}
		id = int32(len(c.classNames))
		c.classNames = append(c.classNames, string(name))
		c.classOf[c.classNames[id]] = id
	}
	c.classes = append(c.classes, id)
	return nil
}

// renumber gives the rows of a file the classes of these names, until ctx is done. It
// fails at the first row of another class.
func (c *csvClasses) renumber(ctx context.Context, path string, names []string) error {
	index := make(map[string]int32, len(names))
	for i, name := range names {
		index[name] = int32(i)
	}
	number := make([]int32, len(c.classNames)) // by the class of a row; -1 for another class
	for class, name := range c.classNames {
		id, known := index[name]
		if number[class] = id; !known {
			number[class] = -1
		}
	}
	err := inPieces(ctx, len(c.classes), pieceBytes, func(from, to int) error {
		for i := from; i < to; i++ {
			class := c.classes[i]
			if c.classes[i] = number[class]; number[class] < 0 {
				return blame("label", fmt.Errorf("%w: %s: sample %d is of class %q, and the model was trained on %s", ErrFormat, path, i, c.classNames[class], few(names)))
			}
		}
		return nil
	})
	c.classNames = names
	return err
}

// sortedClasses is the names of classes in their order: by value if all are
// whole numbers, bytewise otherwise.
func sortedClasses(names []string) []string {
	names = slices.Sorted(slices.Values(names))
	values := make([]int64, len(names)) // by name
	numbers := make([]int, len(names))  // of names
	for i, name := range names {
		v, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return names
		}
		values[i], numbers[i] = v, i
	}
	slices.SortStableFunc(numbers, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	sorted := make([]string, len(names))
	for i, n := range numbers {
		sorted[i] = names[n]
	}
	return sorted
}

// mostNumbers is the most classes whose names may be any numbers. More
// numbers are a quantity if they are not whole, or more than half the rows.
const mostNumbers = 10

// checkClasses refuses a label column that cannot hold classes.
func checkClasses(path string, names []string, rows int) error {
	if len(names) == 1 {
		return blame("label", fmt.Errorf("%w: %s: every row is of class %q, so there is nothing to tell apart: add rows of another class, or take another column as the label",
			ErrTooFew, path, names[0]))
	}
	whole, numbers := true, true
	for _, n := range names {
		v, err := strconv.ParseFloat(n, 64)
		numbers = numbers && err == nil
		whole = whole && v == math.Trunc(v)
	}
	if numbers && len(names) > mostNumbers && (!whole || 2*len(names) > rows) {
		return blame("task", fmt.Errorf("%w: %s: the label column holds %d different numbers in %d rows, such as %s, and the task is classification: set data.task to %s to predict the number, or take another column as the label",
			ErrSpec, path, len(names), rows, few(names), TaskRegression))
	}
	return nil
}
