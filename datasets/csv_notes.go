package datasets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/internal/units"
)

// mostNotes bounds the notes of one sort.
const mostNotes = 20

// shortened are the first of some notes, and a count of the rest.
func shortened(notes []string, rest string) []string {
	if more := len(notes) - mostNotes; more > 0 {
		notes = append(notes[:mostNotes:mostNotes], fmt.Sprintf(rest, more))
	}
	return notes
}

// absent tells of the columns that the file lacks, whose place in from is -1.
func (k *kindTable) absent(f *columns.Fitted, from []int) (notes []string) {
	for i, j := range from {
		if j >= 0 {
			continue
		}
		c, near := &f.Columns[i], ""
		if len(notes) < mostNotes {
			near = k.didYouMean(c.Name, f.ColumnNames())
		}
		notes = append(notes, fmt.Sprintf("%s lacks the column %q: %s stands for it in all rows%s", k.path, c.Name, c.Fills(), near))
	}
	return shortened(notes, "and %d other columns that the file lacks")
}

// didYouMean asks whether another column of the file is the one of that name; "" where none is
// spelt like it. known are the columns of the model.
func (c *csvColumns) didYouMean(name string, known []string) string {
	model := setOf(known)
	others := slices.DeleteFunc(slices.Clone(c.header), func(other string) bool { return model[other] })
	if near := columns.Near(name, others); near != "" {
		return fmt.Sprintf("; the file has %q: is that the column?", near)
	}
	return ""
}

// orGive advises about a column that the file lacks and may not lack. known are the columns of the
// model.
func (c *csvColumns) orGive(lacks columns.Column, known []string) string {
	if near := c.didYouMean(lacks.Name, known); near != "" {
		return near
	}
	fill := columns.FillMedian
	if lacks.Kind == columns.Category || lacks.Kind == columns.Boolean { // which have none
		fill = columns.FillFrequent
	}
	return fmt.Sprintf("; give the column, or train anew with data.columns: {%s: {missing: %s}}, and the file may lack it", lacks.Name, fill)
}

// unseen counts the values of one category that training had in no row.
type unseen struct {
	count int
	words []string // the first of them
}

// add counts one.
func (u *unseen) add(field []byte) {
	const most = 3
	u.count++
	if word := strings.TrimSpace(string(field[:min(len(field), 40)])); len(u.words) <= most && !slices.Contains(u.words, word) {
		u.words = append(u.words, word)
	}
}

// text lists the words.
func (u *unseen) text() string {
	const most = 3
	quoted := make([]string, 0, most)
	for _, word := range u.words[:min(most, len(u.words))] {
		quoted = append(quoted, fmt.Sprintf("%q", word))
	}
	text := strings.Join(quoted, ", ")
	if len(u.words) > most {
		text += " and others"
	}
	return text
}

// news tells of the values of categories that training had in no row.
func (k *kindTable) news(f *columns.Fitted) (notes []string) {
	for i := range k.unseen {
		if u := &k.unseen[i]; u.count > 0 {
			notes = append(notes, fmt.Sprintf("%s of %s of %q were not in training: %s", units.Thousands(u.count), units.Count(k.rows, "value"), f.Columns[i].Name, u.text()))
		}
	}
	return shortened(notes, "and %d other columns with values that were not in training")
}

// manyClasses is the number of classes from which on a note asks whether they are meant.
const manyClasses = 100

// labelNotes ask about classes that are probably not meant.
func (c *csvData) labelNotes(label string) (notes []string) {
	if c.regression {
		return c.constantBits()
	}
	say := func(format string, args ...any) {
		notes = append(notes, fmt.Sprintf("the label %q ", label)+fmt.Sprintf(format, args...))
	}
	names := c.classNames
	number := func(name string) bool { return isNumber(name) }
	dated := func(name string) bool { return columns.IsDate([]byte(name)) }
	switch n := len(names); {
	case n > manyClasses && all(names, number):
		say("has %s different numbers, and each is a class: data.task: regression predicts the number itself", units.Thousands(n))
	case all(names, dated):
		say("holds dates, and each of its %s different ones is a class: data.label takes another column", units.Thousands(n))
	case n > mostNumbers && 2*n > c.rows:
		say("has %s in %s, as a text or a key has: data.label takes another column", units.Count(n, "class"), units.Count(c.rows, "row"))
	default:
		if n > manyClasses {
			say("has %s", units.Count(n, "class"))
		}
		notes = slices.Concat(notes, c.single(label), alike(label, names))
	}
	return notes
}

// constantBits tells of labels that are 0 in all rows, or 1.
func (c *csvData) constantBits() (notes []string) {
	for i, name := range c.names(c.labels) {
		if share := c.share(i); c.bits && (share == 0 || share == 1) {
			notes = append(notes, fmt.Sprintf("the label %q is %v in every row, so there is nothing to learn about it", name, share))
		}
	}
	return shortened(notes, "and %d other labels that are the same in every row")
}

// share is the mean of label i, which is a number: the part of the rows in which a 0 or 1 is 1.
func (c *csvData) share(i int) float64 {
	sum := 0.0
	for row := i; row < len(c.targets); row += len(c.labels) {
		sum += float64(c.targets[row])
	}
	return sum / float64(c.rows)
}

// all reports whether f holds for all texts.
func all(texts []string, f func(string) bool) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !f(text) })
}

// classCounts counts the rows of each class.
func (c *csvData) classCounts() []int {
	count := make([]int, len(c.classNames))
	for _, class := range c.classes {
		count[class]++
	}
	return count
}

// single tells of classes with one sample.
func (c *csvData) single(label string) []string {
	count := c.classCounts()
	var names []string
	for class, n := range count {
		if n == 1 {
			names = append(names, c.classNames[class])
		}
	}
	if names == nil {
		return nil
	}
	return []string{fmt.Sprintf("the label %q has one sample alone of %d of its %d classes, which is trained on or validates, but not both: %s", label, len(names), len(count), few(names))}
}

// alike tells of classes that differ in upper and lower case alone.
func alike(label string, names []string) (notes []string) {
	seen := map[string]string{}
	for _, name := range names {
		lower := strings.ToLower(name)
		if other, twice := seen[lower]; twice {
			notes = append(notes, fmt.Sprintf("the classes %q and %q of the label %q differ in upper and lower case alone: if they are the same, spell them so in the file", other, name, label))
		}
		seen[lower] = name
	}
	return shortened(notes, "and %d other classes that differ in upper and lower case alone")
}
