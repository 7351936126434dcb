package datasets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/datasets/columns"
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
			near = k.didYouMean(c.Name, f)
		}
		notes = append(notes, fmt.Sprintf("%s lacks the column %q: %s stands for it in all rows%s", k.path, c.Name, c.Fills(), near))
	}
	return shortened(notes, "and %d other columns that the file lacks")
}

// didYouMean asks whether another column of the file is the one of that name; "" where none is
// spelt like it.
func (k *kindTable) didYouMean(name string, f *columns.Fitted) string {
	known := setOf(f.ColumnNames())
	others := slices.DeleteFunc(slices.Clone(k.header), func(other string) bool { return known[other] })
	if near := columns.Near(name, others); near != "" {
		return fmt.Sprintf("; the file has %q: is that the column?", near)
	}
	return ""
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
			notes = append(notes, fmt.Sprintf("%d of %d values of %q were not in training: %s", u.count, k.rows, f.Columns[i].Name, u.text()))
		}
	}
	return shortened(notes, "and %d other columns with values that were not in training")
}
