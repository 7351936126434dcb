package datasets

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// numberClasses numbers labels in the order of their sorted names: by value if
// all are whole numbers, bytewise otherwise.
func numberClasses(labels []string) (ids []int32, names []string) {
	index := map[string]int32{}
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
	ids = make([]int32, len(labels))
	for i, l := range labels {
		ids[i] = index[l]
	}
	return ids, names
}

// wholeNumbers gives the value of each name; nil unless all are whole numbers.
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

// classIDs numbers labels as a model whose classes are names does.
func classIDs(path string, labels, names []string) ([]int32, error) {
	index := map[string]int32{}
	for i, name := range names {
		index[name] = int32(i)
	}
	var ids []int32
	for i, label := range labels {
		id, ok := index[label]
		if !ok {
			return nil, blame("label", fmt.Errorf("%w: %s: sample %d is of class %q, and the model was trained on %s", ErrFormat, path, i, label, few(names)))
		}
		ids = append(ids, id)
	}
	return ids, nil
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

// few lists the first few of many names.
func few(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
