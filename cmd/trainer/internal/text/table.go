package text

import (
	"strings"
	"unicode/utf8"
)

// Columns is the width that tables keep to, in characters.
const Columns = 100

// leastWidth is the least width to which a column of a table is cut.
const leastWidth = 12

// Table is rows of cells in columns with two spaces between them. Where a row is
// wider than Columns, the cells of the columns in cut are cut to fit, the first of
// these columns first.
func Table(rows [][]string, cut ...int) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	over := -Columns - 2
	for _, w := range widths {
		over += w + 2
	}
	for _, i := range cut {
		if i < len(widths) && over > 0 {
			less := min(over, max(0, widths[i]-leastWidth))
			widths[i] -= less
			over -= less
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			cell = Cut(cell, widths[i])
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// Cut is a text of at most n characters on one line: of a longer one, the middle is
// left out.
func Cut(s string, n int) string {
	r := []rune(strings.Map(printable, strings.ToValidUTF8(s, "\ufffd")))
	if len(r) <= n || n < 3 {
		return string(r)
	}
	left := (n - 1) / 2
	return string(r[:left]) + "…" + string(r[len(r)-(n-1-left):])
}

// printable is a character, or a mark for one that moves a terminal's cursor.
func printable(c rune) rune {
	if c < ' ' || c >= 0x7f && c < 0xa0 {
		return '\ufffd'
	}
	return c
}
