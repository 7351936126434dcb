// Package columns lays out the tables that commands print, so that each fits a
// terminal.
package columns

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Width is the most characters of a line.
const Width = 100

// leastWidth is the least width to which a column is cut.
const leastWidth = 12

// Layout says how columns are laid out, by their numbers from 0.
type Layout struct {
	Right []int // numbers, aligned on the right
	Cut   []int // texts that are cut where a line is wider than Width, the first of these columns first
	Prose []int // texts that lose their end where they are cut; others lose their middle
	Width int   // the most characters of a line; 0: Width
	Whole bool  // nothing is cut, for programs that read the table
}

// Format is rows of cells, in columns with two spaces between them.
func Format(rows [][]string, l Layout) string {
	widths := l.widths(rows)
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if slices.Contains(l.Prose, i) {
				cell = cutEnd(cell, widths[i])
			} else {
				cell = Cut(cell, widths[i])
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(l.Right, i) {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// widths are those of the columns.
func (l Layout) widths(rows [][]string) (widths []int) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	over := -cmp.Or(l.Width, Width) - 2
	for _, w := range widths {
		over += w + 2
	}
	for _, i := range l.Cut {
		if i < len(widths) && over > 0 && !l.Whole {
			less := min(over, max(0, widths[i]-leastWidth))
			widths[i] -= less
			over -= less
		}
	}
	return widths
}

// Cut is a text of at most n characters on one line: of a longer one, the middle is
// left out.
func Cut(s string, n int) string {
	return cut(s, n, (n-1)/2)
}

// cutEnd is Cut that leaves the end out.
func cutEnd(s string, n int) string { return cut(s, n, n-1) }

// cut keeps the first left characters, and of the last ones as many as n allows.
func cut(s string, n, left int) string {
	r := []rune(strings.Map(printable, strings.ToValidUTF8(s, "\ufffd")))
	if len(r) <= n || n < 3 {
		return string(r)
	}
	return string(r[:left]) + "…" + string(r[len(r)-(n-1-left):])
}

// Printed is a text without what a terminal obeys, which the name of a file may have:
// a mark takes the place of each control character but line ends and tabs.
func Printed(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return c
		}
		return printable(c)
	}, s)
}

// printable is a character, or a mark for one that moves a terminal's cursor.
func printable(c rune) rune {
	if c < ' ' || c >= 0x7f && c < 0xa0 {
		return '\ufffd'
	}
	return c
}

// Wrap cuts a text at spaces into lines of at most width characters; a longer word
// has a line of its own.
func Wrap(s string, width int) (lines []string) {
	for word := range strings.FieldsSeq(s) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}
