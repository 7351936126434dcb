package datasets

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tabular"
	"github.com/berth-ml/berth/internal/units"
)

// csvColumns tells the columns of a CSV file apart.
type csvColumns struct {
	path     string         // for errors
	header   []string       // the names of all columns; nil if the file has no header
	named    map[string]int // the column of each name of header
	width    int            // number of columns
	features []int          // feature columns
	labels   []int          // label columns; none when reading for prediction
	trained  bool           // the file is for a model, whose options stay
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

// choose decides which columns are labels and which are features: every column that is neither a
// label nor ignored. Those of a file for a model are found by name where both have names.
func (c *csvData) choose(in csvInput) (err error) {
	labels, err := c.labelsOf(in)
	if err != nil {
		return err
	}
	if c.labels, err = c.find("label", "label", labels); err != nil {
		if in.like != nil && c.header != nil {
			err = fmt.Errorf("%w; a label that has another name in this file is named by --set data.label=NAME, and rows without one are answered by trainer predict RUN FILE", err)
		}
		return err
	}
	ignore := in.opt.Ignore
	if in.fitted != nil && c.byName(in.fitted) { // they are no features in any case
		ignore = slices.DeleteFunc(slices.Clone(ignore), func(name string) bool { return !c.has(name) })
	}
	ignored, err := c.find("ignored", "ignore", ignore)
	if err != nil {
		return err
	}
	isLabel, isIgnored := setOf(c.labels), setOf(ignored)
	for i, j := range ignored {
		if isLabel[j] {
			return blame("ignore", fmt.Errorf("%w: %s: column %q is ignored and is the label, which is the last column unless given: take it off the ignored ones, or give another label",
				ErrSpec, c.path, ignore[i]))
		}
	}
	for i := range c.width {
		if !isLabel[i] && !isIgnored[i] {
			c.features = append(c.features, i)
		}
	}
	if len(c.features) == 0 && in.fitted == nil {
		why := "there is no column beside the label to predict it from: add one"
		if len(ignored) > 0 {
			why = "every column beside the label is ignored, and none is left to predict it from: ignore fewer, or add one"
		}
		return fmt.Errorf("%w: %s: %s", ErrFormat, c.path, why)
	}
	return nil
}

// labelsOf names the columns of the labels. A model's labels that were named by number, such as the
// last column, are found by the names that they had in training; several are in the order of the model.
func (c *csvData) labelsOf(in csvInput) ([]string, error) {
	asked := in.opt.Labels
	if len(asked) == 0 {
		asked = []string{"-1"}
	}
	if in.like == nil {
		return asked, c.checkLast(asked)
	}
	trained := in.like.labels()
	if c.header == nil || len(trained) != len(asked) {
		return asked, nil
	}
	if maps.Equal(setOf(asked), setOf(trained)) {
		return trained, nil
	}
	found := slices.Clone(asked)
	for i, name := range asked {
		at := slices.Index(trained, name)
		if _, err := strconv.Atoi(name); err == nil && !c.has(name) {
			found[i] = trained[i]
		} else if at >= 0 && at != i {
			return nil, blame("label", fmt.Errorf("%w: %s: the label %q is in the place of %q: the model has the labels %s; name them in this order",
				ErrSpec, c.path, name, trained[i], few(trained)))
		}
	}
	return found, nil
}

// checkLast refuses to count labels from the last column of JSON lines where later objects have keys
// that the first lacks: the last key would depend on the rows.
func (c *csvData) checkLast(asked []string) error {
	for _, name := range asked {
		if n, err := strconv.Atoi(name); err == nil && n < 0 && !c.has(name) && c.table.Late != "" {
			return blame("label", fmt.Errorf("%w: %s: the label is the last column unless given, and the objects have different keys (the first lacks %q), so none is the last: name it with data.label",
				ErrSpec, c.path, c.table.Late))
		}
	}
	return nil
}

// has reports whether a column has that name.
func (c *csvColumns) has(name string) bool {
	_, has := c.named[name]
	return has
}

// chooseLike takes a model's features by name, if both have names. Otherwise it
// checks that there are as many.
func (c *csvData) chooseLike(like *columns.Fitted) error {
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
func (c *csvData) chooseInputs(in csvInput) error {
	wanted := in.fitted
	if c.byName(wanted) {
		return c.chooseNamed(wanted.ColumnNames())
	}
	if c.width < len(wanted.Columns) {
		return fmt.Errorf("%w: %s has %d columns, but the model was trained on %d features: use a file with the columns of the training data", ErrFormat, c.path, c.width, len(wanted.Columns))
	}
	if c.width != len(wanted.Columns) {
		err := c.choose(in)
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
			return fmt.Errorf("%w: %s lacks the column %q that the model was trained on; it has %s%s", ErrFormat, c.path, name, c.describe(), c.orGive(columns.Column{Name: name, Kind: columns.Number}, names))
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
			hint := c.hint(name)
			if hint == "" && use == "label" && strings.Contains(name, ",") {
				hint = "; several labels are a list: [" + name + "]"
			}
			return nil, blame(option, fmt.Errorf("%w: %s: there is no %s column %q among %s%s", ErrSpec, c.path, use, name, c.describe(), hint))
		}
		if seen[i] {
			return nil, blame(option, fmt.Errorf("%w: %s: %s column %q is named twice: name it once", ErrSpec, c.path, use, name))
		}
		seen[i] = true
		found = append(found, i)
	}
	return found, nil
}

// hint asks whether another column was meant; "" where none is called like it.
func (c *csvColumns) hint(name string) string {
	if near := columns.Meant(name, c.header); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
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

// isValue reports whether a field is a boolean or a number, and no text. In CSV, what reads as one
// may be one.
func isValue(row csvRow, j int) bool {
	if row.Values == nil {
		return columns.IsValue(bytes.TrimSpace(row.Fields[j]))
	}
	return row.Values[j]
}

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

// labelNames are the names of the labels; nil where the file has none.
func (c *csvColumns) labelNames() []string {
	if c.header == nil {
		return nil
	}
	return c.names(c.labels)
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
	model      *columns.Words // the names of a model's classes, which classNames has; nil: there is no model
	booleans   bool           // the model's classes are the two words of a boolean
}

// follow takes the classes of a model.
func (c *csvClasses) follow(names []string) {
	c.classNames, c.model = names, columns.NewWords(names)
	c.booleans = len(names) == 2 && columns.IsPair(names[0], names[1])
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
	case c.model != nil:
		return c.addKnown(in, row, j, name)
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

// addKnown adds a class of the model's.
func (c *csvClasses) addKnown(in *csvColumns, row csvRow, j int, name []byte) error {
	id, known := c.model.Find(name)
	if !known && (c.booleans || isValue(row, j)) {
		id, known = c.model.FindValue(name)
	}
	if !known {
		return blame("label", in.fieldError(row, j, fmt.Sprintf("%.40q is no class of the model, which was trained on %s: correct it, or take the row out", name, few(c.classNames))))
	}
	c.classes = append(c.classes, id)
	return nil
}

// renumber numbers the classes in the order of names, which are those of the rows, until ctx is done.
func (c *csvClasses) renumber(ctx context.Context, names []string) error {
	number := make([]int32, len(names)) // by the class of a row
	for i, name := range names {
		number[c.classOf[name]] = int32(i)
	}
	c.classNames = names
	return inPieces(ctx, len(c.classes), pieceBytes, func(from, to int) error {
		for i := from; i < to; i++ {
			c.classes[i] = number[c.classes[i]]
		}
		return nil
	})
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

// checkLabel refuses a label column that cannot hold classes. It comes before the rows are divided: such a column
// leaves parts empty, which is not its fault.
func (c *csvData) checkLabel() error {
	if c.regression {
		return nil
	}
	names := sortedClasses(c.classNames)
	return cmp.Or(checkClasses(c.path, names, c.rows), c.checkAlone(names))
}

// checkAlone refuses classes of which most rows have one of their own, as a key or a text has: there
// is nothing to learn from a class with one row.
func (c *csvData) checkAlone(names []string) error {
	counts := make([]int32, len(c.classNames))
	for _, class := range c.classes {
		counts[class]++
	}
	alone := 0
	for _, n := range counts {
		if n == 1 {
			alone++
		}
	}
	if alone <= mostNumbers || 2*alone <= c.rows {
		return nil
	}
	return blame("label", fmt.Errorf("%w: %s: %s of %s have a class of their own, such as %s, as in a column of keys or texts: take another column as the label",
		ErrSpec, c.path, units.Thousands(alone), units.Count(c.rows, "row"), few(names)))
}

// checkClasses refuses names of classes that are numbers of a quantity, and a single one.
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
		return blame("task", fmt.Errorf("%w: %s: the label column holds %s different numbers in %s, such as %s, and the task is classification: set data.task to %s to predict the number, or take another column as the label",
			ErrSpec, path, units.Thousands(len(names)), units.Count(rows, "row"), few(names), TaskRegression))
	}
	return nil
}
