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
)

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
func (c *csvClasses) addClass(columns *csvColumns, row csvRow, j int) error {
	name := bytes.TrimSpace(row.fields[j])
	id, known := c.classOf[string(name)]
	switch {
	case known:
	case len(name) == 0:
		return ofKinds(columns.fieldError(row, j, "empty label: fill it in or take the row out"))
	case !utf8.Valid(name):
		return columns.fieldError(row, j, fmt.Sprintf("%.40q is not UTF-8: save the file as UTF-8", name))
	case len(c.classNames) == mostClasses:
		return blame("task", columns.fieldError(row, j, fmt.Sprintf("%.40q is the class number %d, and the limit is %d: set data.task to %s to predict a number, or take another column as the label",
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
