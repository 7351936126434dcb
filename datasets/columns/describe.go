package columns

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	table "github.com/berth-ml/berth/internal/columns"
)

// Description says what was found in a column, and what becomes of it.
type Description struct {
	Name      string
	Kind      Kind
	Label     bool   // it is what the model predicts
	Different int    // values; -1: they were not counted
	AtLeast   bool   // Different counts some values of equal words twice
	Missing   int    // rows of the training part that lack it
	Rows      int    // of the training part
	Range     string // from the least value to the greatest, or the most frequent words
	Features  int    // that it becomes; 0: it is left out
	Remark    string // "": nothing is odd about it
}

// remark adds a remark.
func (d *Description) remark(format string, args ...any) {
	if d.Remark != "" {
		d.Remark += "; "
	}
	d.Remark += fmt.Sprintf(format, args...)
}

// numberText writes a number with at most six digits.
func numberText(v float32) string { return strconv.FormatFloat(float64(v), 'g', 6, 32) }

// becomes says what becomes of a column.
func (d *Description) becomes() string {
	switch {
	case d.Label:
		return "the label"
	case d.Features == 0:
		return "left out"
	case d.Features == 1:
		return "1 feature"
	}
	return fmt.Sprintf("%d features", d.Features)
}

// The widths of a printed table.
const (
	lineWidth  = 80
	leastName  = 10
	rangeWidth = 21
)

// Thresholds says by which numbers kinds are found.
var Thresholds = fmt.Sprintf("A column is left out where %d of 10 rows or more have words of their own, more\nthan %d in all. The %d most frequent values of a category have a feature each.\ndata.columns changes both.", almostTenths, few, DefaultTop)

// Table prints descriptions, in lines of 80 characters. Of more than most columns it
// has those that are not plain numbers first, and counts the rest; 0: it has all.
func Table(list []Description, most int) string {
	shown := slices.Clone(list)
	if most > 0 && len(list) > most {
		slices.SortStableFunc(shown, func(a, b Description) int { return a.rank() - b.rank() })
		shown = shown[:most]
	}
	rows := [][]string{{"COLUMN", "KIND", "DISTINCT", "MISSING", "RANGE", "BECOMES"}}
	widths := make([]int, len(rows[0]))
	for _, d := range shown {
		rows = append(rows, d.cells())
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	left := lineWidth + widths[0] + 2
	for _, w := range widths {
		left -= w + 2
	}
	for _, row := range rows {
		row[0] = table.Cut(row[0], max(left, leastName))
	}
	text := table.Format(rows, table.Layout{Right: []int{2, 3}})
	if more := len(list) - len(shown); more > 0 {
		text += fmt.Sprintf("and %d more columns\n", more)
	}
	return text
}

// rank is less for columns that are more worth a line.
func (d *Description) rank() int {
	switch {
	case d.Label:
		return 0
	case d.Remark != "":
		return 1
	case d.Kind != Number || d.Missing > 0:
		return 2
	}
	return 3
}

func (d *Description) cells() []string {
	different := "-"
	if d.Different >= 0 {
		different = fmt.Sprint(d.Different)
	}
	if d.AtLeast {
		different = "many"
	}
	missing := "0"
	if d.Missing > 0 {
		missing = fmt.Sprintf("%d %s", d.Missing, percent(d.Missing, d.Rows))
	}
	return []string{d.Name, string(d.Kind), different, missing, table.Cut(d.Range, rangeWidth), d.becomes()}
}

// Notes are the remarks, each with its column: about those that are left out, and odd
// ones.
func Notes(list []Description) []string {
	const most = 20
	var notes []string
	for _, d := range list {
		if d.Remark == "" {
			continue
		}
		if len(notes) == most {
			return append(notes, "and other columns with notes: trainer data prints them")
		}
		notes = append(notes, fmt.Sprintf("column %q: %s", short(d.Name), d.Remark))
	}
	return notes
}
