package datasets

import (
	"cmp"
	"context"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// Division says how samples are divided into a training, a validation and a test part. With
// Folds, fold number Fold validates; Test is then taken from all rows before the folds are.
type Division struct {
	Val, Test float64 // shares of the rows, which are rounded to whole rows; the rest trains
	// ValPath and TestPath are files or folders in place of shares; "": there are none.
	ValPath, TestPath string
	Stratify          bool   // each class has its share in each part, where a target is a class
	By                string // csv, images of a table: rows with the same value in this column stay together; "": rows divide alone
	Latest            string // csv, images of a table: rows with the largest numbers or dates here are the test part, and those before them validate; "": at random
	Folds             int    // 0: none
	Fold              int    // from 1
}

// The parts that divide gives a row to. With folds, a row that is not part of the test is in fold
// number mark-inFold, from 0.
const (
	inTrain = iota
	inVal
	inTest
	inFold
)

// rowKeys are the values of each row that its part depends on.
type rowKeys struct {
	classes []int32            // of the target; nil: it is none
	class   func(int32) string // the name of a class
	groups  []int32            // number of its value of Division.By, in the order of the file; nil: each row is alone
	latest  []float64          // its value of Division.Latest; nil: rows are divided at random
}

// hash writes the keys that are not part of the table.
func (k *rowKeys) hash(h hash.Hash) {
	h.Write(shape.Bytes(k.groups))
	h.Write(shape.Bytes(k.latest))
}

// print writes what decides the parts into a fingerprint. Where files are is left out.
func (d Division) print(h hash.Hash, keys *rowKeys) {
	d.ValPath, d.TestPath = "", ""
	fmt.Fprintf(h, "division %+v keys %v\n", d, keys != nil)
	if keys != nil {
		keys.hash(h)
	}
}

// divides reports whether the rows of one file become several parts.
func (d *Division) divides() bool { return d.Val > 0 || d.Test > 0 || d.Folds > 0 }

// needsKeys reports whether rows are divided by a column.
func (d *Division) needsKeys() bool { return d.divides() && (d.By != "" || d.Latest != "") }

// check refuses a division that cannot be.
func (d *Division) check() error {
	bad := func(text string, args ...any) error {
		return blame("split", fmt.Errorf("%w: the split: %s", ErrSpec, fmt.Sprintf(text, args...)))
	}
	switch {
	case !(d.Val >= 0 && d.Test >= 0 && d.Val+d.Test < 1):
		return bad("shares of %v to validate and %v to test leave no rows to train on: give shares of at least 0 that add up to less than 1", d.Val, d.Test)
	case d.Folds < 0 || d.Folds == 1 || d.Folds > 0 && (d.Fold < 1 || d.Fold > d.Folds):
		return bad("fold %d of %d: give 2 folds or more, and one of them from 1 on", d.Fold, d.Folds)
	case d.Folds > 0 && (d.Val > 0 || d.ValPath != ""):
		return bad("with folds, the fold validates: leave the other validation part out")
	case d.Val > 0 && d.ValPath != "" || d.Test > 0 && d.TestPath != "":
		return bad("give a share or a file for a part, not both")
	case d.Latest != "" && (d.By != "" || d.Folds > 0 || d.Stratify):
		return bad("the latest rows leave no choice of rows: leave by, folds and stratify out, or latest")
	}
	return nil
}

// split divides the rows of t into the parts of ds: as s.Division says, or at random with a
// fraction for training. keys may be nil where no division needs any.
func (ds *Dataset) split(t *table, s Spec, fraction float64, keys *rowKeys) (err error) {
	if s.Division == nil || fraction == 1 {
		ds.Train, ds.Val, err = splitRandomly(t, s, fraction)
		return err
	}
	if keys == nil {
		keys = &rowKeys{}
	}
	marks, err := s.Division.marks(t.rows, s.Seed, keys)
	if err != nil {
		return err
	}
	parts := collect(marks, s.Division)
	if err := checkParts(parts, s.Division, t.rows); err != nil {
		return err
	}
	if err := keys.checkClasses(marks, s); err != nil {
		return err
	}
	whole := func(rows []int32) *Part {
		if len(rows) == 0 {
			return nil
		}
		return &Part{table: t, only: rows, count: len(rows)}
	}
	ds.Train, ds.Val, ds.Test = whole(parts[inTrain]), whole(parts[inVal]), whole(parts[inTest])
	shuffle(ds.Train, s)
	return nil
}

// collect lists the rows of each part, in the order of the file. The marks of folds become those
// of parts.
func collect(marks []int32, d *Division) (parts [3][]int32) {
	for i, m := range marks {
		if m >= inFold {
			if m = inTrain; marks[i]-inFold == int32(d.Fold-1) {
				m = inVal
			}
			marks[i] = m
		}
		parts[m] = append(parts[m], int32(i))
	}
	return parts
}

// checkParts refuses parts that were asked for and are empty.
func checkParts(parts [3][]int32, d *Division, rows int) error {
	advice := "add rows, or give it a larger share"
	if d.By != "" {
		advice = fmt.Sprintf("the rows with one value of %q stay together, and there are too few values of a fitting size; give it a larger share, or add rows", d.By)
	}
	for _, p := range []struct {
		name  string
		empty bool
	}{
		{"training", len(parts[inTrain]) == 0},
		{"validation", len(parts[inVal]) == 0 && (d.Val > 0 || d.Folds > 0)},
		{"test", len(parts[inTest]) == 0 && d.Test > 0},
	} {
		if p.empty {
			return blame("split", fmt.Errorf("%w: the %s part of %s is empty: %s", ErrTooFew, p.name, units.Count(rows, "row"), advice))
		}
	}
	return nil
}

// checkClasses refuses a class that no row of the training part has.
func (k *rowKeys) checkClasses(marks []int32, s Spec) error {
	if k.class == nil || s.Like != nil {
		return nil
	}
	trained := map[int32]bool{}
	for i, m := range marks {
		if m == inTrain {
			trained[k.classes[i]] = true
		}
	}
	for _, class := range k.classes {
		if !trained[class] {
			return blame("split", fmt.Errorf("%w: no row of the training part is of class %q, so the model cannot learn it: divide the rows otherwise, add rows of the class, or take them out", ErrTooFew, k.class(class)))
		}
	}
	return nil
}

// marks gives each row its part. It depends on the rows, their keys and the seed alone.
func (d *Division) marks(rows int, seed uint64, keys *rowKeys) ([]int32, error) {
	if rows > math.MaxInt32 {
		return nil, blame("split", fmt.Errorf("%w: %s are more than %s, the most that can be divided in this way: give a number", ErrSpec, units.Count(rows, "row"), units.Thousands(math.MaxInt32)))
	}
	order := rng.NewPermutation(rows, rng.Named(seed, "split"))
	classes, count := make([]int32, rows), 1
	if d.Stratify && keys.classes != nil {
		count = numberClasses(classes, keys.classes)
	}
	if keys.latest != nil {
		return d.latestMarks(keys.latest), nil
	}
	if keys.groups != nil {
		return d.groupMarks(order, keys.groups, classes, count)
	}
	marks := make([]int32, rows)
	members := byClass(order, classes, count)
	d.takeShare(marks, members, d.Test, inTest)
	if d.Folds == 0 {
		d.takeShare(marks, members, d.Val, inVal)
		return marks, nil
	}
	at := 0
	for _, list := range members { // the folds go on from class to class, so that their sizes differ by one
		for _, row := range list {
			if marks[row] == inTrain {
				marks[row] = int32(inFold + at%d.Folds)
				at++
			}
		}
	}
	return marks, nil
}

// numberClasses numbers classes by their first row into dst, and counts them: the number that a file
// gives a class does not matter.
func numberClasses(dst, classes []int32) int {
	number := map[int32]int32{}
	for i, class := range classes {
		n, seen := number[class]
		if !seen {
			n = int32(len(number))
			number[class] = n
		}
		dst[i] = n
	}
	return len(number)
}

// byClass lists the rows of each class in a random order.
func byClass(order rng.Permutation, classes []int32, count int) [][]int32 {
	lists := make([][]int32, count)
	for i := range order.Len() {
		row := int32(order.At(i))
		lists[classes[row]] = append(lists[classes[row]], row)
	}
	return lists
}

// rowsOfShare is a share of rows in whole rows.
func rowsOfShare(rows int, share float64) int { return int(math.Round(float64(rows) * share)) }

// takeShare marks a share of the rows of each class. The rows that whole rows of all classes leave
// over come from the classes with the largest fractions. A class keeps a row to train on.
func (d *Division) takeShare(marks []int32, members [][]int32, share float64, mark int32) {
	if share == 0 {
		return
	}
	rows, taken := 0, 0
	take, rest := make([]int, len(members)), make([]float64, len(members))
	for c, list := range members {
		exact := float64(len(list)) * share
		take[c] = int(exact)
		rest[c] = exact - float64(take[c])
		rows += len(list)
		taken += take[c]
	}
	order := make([]int, len(members))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, c := range order {
		if taken < rowsOfShare(rows, share) && rest[c] > 0 {
			take[c]++
			taken++
		}
	}
	for c, list := range members {
		left := 0
		for _, row := range list {
			if marks[row] == inTrain {
				left++
			}
		}
		for _, row := range list {
			if take[c] > 0 && left > 1 && marks[row] == inTrain {
				marks[row] = mark
				take[c]--
				left--
			}
		}
	}
}

// latestMarks has the rows with the largest values test, and those before them validate. Rows with
// the same value are in the order of the file.
func (d *Division) latestMarks(values []float64) []int32 {
	order := make([]int32, len(values))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(values[a], values[b]) })
	marks := make([]int32, len(values))
	test := len(order) - rowsOfShare(len(order), d.Test)
	val := max(0, test-rowsOfShare(len(order), d.Val))
	for i, row := range order {
		switch {
		case i >= test:
			marks[row] = inTest
		case i >= val:
			marks[row] = inVal
		}
	}
	return marks
}

// share is a part, or a fold, that groups of rows go to.
type share struct {
	mark int32
	of   float64
	have []int // rows by class
}

// cost is how much farther from its share of each class a bin is with a group of count rows by
// class than without it. total are the rows of all classes.
func (b *share) cost(group []classCount, total []int) (sum float64) {
	for _, g := range group {
		want := float64(b.of * float64(total[g.class]))
		over := 2*(float64(b.have[g.class])-want) + float64(g.rows)
		sum += float64(float64(g.rows)*over) / float64(total[g.class]) // rounded step by step, alike on all machines
	}
	return sum
}

// classCount is the rows of a class in a group.
type classCount struct{ class, rows int }

// groupMarks gives groups of rows to parts, each to the one that comes nearest to its share by
// that. For shares the groups come in a random order; for folds the largest come first, so that
// the folds are as equal as they can be.
func (d *Division) groupMarks(order rng.Permutation, groups, classes []int32, count int) ([]int32, error) {
	list, total := sumGroups(order, groups, classes, count)
	bins := []*share{{mark: inTrain, of: 1 - d.Val - d.Test}, {mark: inVal, of: d.Val}, {mark: inTest, of: d.Test}}
	if d.Folds > 0 {
		bins = []*share{{mark: inTest, of: d.Test}}
		for i := range d.Folds {
			bins = append(bins, &share{mark: int32(inFold + i), of: (1 - d.Test) / float64(d.Folds)})
		}
		slices.SortStableFunc(list, func(a, b *group) int { return cmp.Compare(b.rows, a.rows) })
		if len(list) < d.Folds {
			return nil, blame("split", fmt.Errorf("%w: %d folds need as many values of %q, and there are %d: use fewer folds", ErrTooFew, d.Folds, d.By, len(list)))
		}
	}
	bins = slices.DeleteFunc(bins, func(b *share) bool { return b.of <= 0 })
	for _, b := range bins {
		b.have = make([]int, count)
	}
	of := make([]int32, 1+slices.Max(groups)) // by the number of a group
	for _, g := range list {
		best, least := bins[0], math.Inf(1)
		for _, b := range bins {
			if cost := b.cost(g.counts, total); cost < least {
				best, least = b, cost
			}
		}
		for _, c := range g.counts {
			best.have[c.class] += c.rows
		}
		of[g.id] = best.mark
	}
	marks := make([]int32, len(groups))
	for i, g := range groups {
		marks[i] = of[g]
	}
	return marks, nil
}

// group is the rows with one value.
type group struct {
	id     int32
	rows   int
	counts []classCount
}

// sumGroups counts the rows of each group by class, and those of each class in all. The groups
// come in a random order.
func sumGroups(order rng.Permutation, groups, classes []int32, count int) (list []*group, total []int) {
	found := make([]*group, 1+slices.Max(groups))
	total = make([]int, count)
	for i := range order.Len() {
		row := order.At(i)
		g := found[groups[row]]
		if g == nil {
			g = &group{id: groups[row]}
			found[g.id] = g
			list = append(list, g)
		}
		class := int(classes[row])
		g.rows++
		total[class]++
		j := slices.IndexFunc(g.counts, func(c classCount) bool { return c.class == class })
		if j < 0 {
			j = len(g.counts)
			g.counts = append(g.counts, classCount{class: class})
		}
		g.counts[j].rows++
	}
	return list, total
}

// targetClasses are the classes of a table's targets, in memory; nil if they are no classes.
func targetClasses(ctx context.Context, s Spec, t *table) (*rowKeys, error) {
	c := &t.columns[1]
	if s.Division == nil || !s.Division.Stratify || c.field.Meta.DType != shape.Int32 || c.field.Meta.Shape.Rank() > 0 {
		return nil, nil
	}
	keys := &rowKeys{classes: make([]int32, 0, t.rows)}
	err := c.elements(ctx, func(part []byte) error {
		keys.classes = append(keys.classes, shape.View[int32](part)...)
		return nil
	})
	return keys, err
}
