package columns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/edit"
)

// mostCompared bounds the pairs of names that are compared to find a misspelt one.
const mostCompared = 4096

// Near is the one of some names that another may stand for: it differs in upper and lower
// case, in spaces and dashes, or in a letter or two; "" if there is none. Names that differ in
// their digits or in the last letter alone, such as q1 and q2, are different ones.
func Near(name string, names []string) string {
	if len(name) > edit.LongestWord || len(names) > mostCompared {
		return ""
	}
	if other := sameWord(name, names); other != "" {
		return other
	}
	for _, other := range names {
		if near(plainName(name), plainName(other)) {
			return other
		}
	}
	return ""
}

// Meant is the one of some names that a person who wrote another probably meant; "" if there is
// none. No column has the written name, so also one that differs in the last letter is meant.
func Meant(written string, names []string) string {
	if near := Near(written, names); near != "" || len(names) > mostCompared {
		return near
	}
	if near := edit.Nearest(written, names, len(written)/3); near != "" {
		return near
	}
	return longer(written, names)
}

// longer is the only one of some names that begins with another of four letters or more, such as churned
// with churn; "" if there is none, or several.
func longer(written string, names []string) (found string) {
	plain := plainName(written)
	for _, other := range names {
		if len(plain) < 4 || !strings.HasPrefix(plainName(other), plain) {
			continue
		}
		if found != "" {
			return ""
		}
		found = other
	}
	return found
}

// sameWord is the one of some names from which another differs in upper and lower case, spaces
// and dashes alone; "" if there is none.
func sameWord(name string, names []string) string {
	plain := plainName(name)
	for _, other := range names {
		if len(other) <= edit.LongestWord && other != name && plain != "" && plainName(other) == plain {
			return other
		}
	}
	return ""
}

// plainName is a name without what is often spelt otherwise.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" _-.", r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// near reports whether plain names differ by few edits.
func near(a, b string) bool {
	const short, long = 4, 8 // letters
	least, edits := min(len(a), len(b)), 1
	if least >= long {
		edits = 2
	}
	if least < short || len(b) > edit.LongestWord || max(len(a), len(b))-least > edits || digitsIn(a) != digitsIn(b) {
		return false
	}
	if len(a) == len(b) && a[:len(a)-1] == b[:len(b)-1] {
		return false
	}
	return edit.Distance(a, b) <= edits
}

// digitsIn are the digits of a name.
func digitsIn(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, name)
}

// Misspelt is an error about the first of some unknown names that is probably that of a column
// without a value; nil if there is none. given says which columns have a value. A column that may
// be missing has another name only where that differs in case, spaces and dashes alone: a row
// with "weight" may well lack "height".
func (f *Fitted) Misspelt(unknown []string, given func(i int) bool) error {
	var needed, lacks []string
	for i := range f.Columns {
		if !given(i) {
			lacks = append(lacks, f.Columns[i].Name)
			if !f.Columns[i].Optional {
				needed = append(needed, f.Columns[i].Name)
			}
		}
	}
	if len(lacks)*len(unknown) > mostCompared {
		return nil
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		column := Near(name, needed)
		if column == "" && len(name) <= edit.LongestWord {
			column = sameWord(name, lacks)
		}
		if column != "" {
			return fmt.Errorf("%q is no column, and the row lacks %q: did you mean that? A value of another name does not count", short(name), short(column))
		}
	}
	return nil
}

// Fills says what stands for a missing value, such as "the median 34.1".
func (c *Column) Fills() string {
	median := "the median"
	if c.Frequent {
		median = "the most frequent value"
	}
	switch c.Kind {
	case Number:
		return median + " " + numberText(float32(c.Fill), 8)
	case Date:
		return median + " " + dateText(int32(c.Fill))
	case Boolean:
		return fmt.Sprintf("the most frequent value, %s,", pairs[0][int(c.Fill)])
	}
	return fmt.Sprintf("the most frequent value %q", short(c.Values[0]))
}

// New reports whether a cell of column i is of a category's value that has no feature of its own.
func (f *Fitted) New(i int, cell int32) bool {
	c := &f.Columns[i]
	return c.Kind == Category && int(cell) == len(c.Values)
}

// Unseen reports whether a cell of column i is a value of a category that has no feature,
// because no row of the training part had it.
func (f *Fitted) Unseen(i int, cell int32) bool { return f.New(i, cell) && !f.Columns[i].Other }
