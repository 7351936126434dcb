// Package columns lays out the tables that commands print, so that each fits a
// terminal.
package columns

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Width is the most characters of a line, where nobody says how wide a line may be.
const Width = 100

// The least widths to which columns are cut, and those where nothing is left that could be left out.
const (
	leastWidth, narrowWidth = 16, 8
	leastProse, narrowProse = 28, 16
)

// Layout says how columns are laid out, by their numbers from 0. What happens to a table
// that is wider than Width: columns are cut, then left out, and at last cut further.
type Layout struct {
	Right []int // numbers, aligned on the right
	Cut   []int // texts that lose their middle, the first of these columns first
	Prose []int // those of Cut whose texts go on in further lines: they lose nothing, and a longer word stays whole
	Drop  []int // columns that are left out, the first of these first
	Width int   // the most characters of a line; 0: the constant
}

// Format is rows of cells, in columns with two spaces between them.
func Format(rows [][]string, l Layout) string {
	widths := l.widths(rows)
	var b strings.Builder
	for _, row := range rows {
		for more := true; more; {
			row, more = l.line(&b, row, widths)
		}
	}
	return b.String()
}

// line writes a line of a row. rest is what goes on in the next line, if there is more.
func (l Layout) line(b *strings.Builder, row []string, widths []int) (rest []string, more bool) {
	var line strings.Builder
	rest = make([]string, len(row))
	for i, cell := range row {
		if widths[i] < 0 {
			continue
		}
		if lines := Wrap(cell, widths[i]); slices.Contains(l.Prose, i) && len(lines) > 0 {
			cell, rest[i] = Cut(lines[0], math.MaxInt), strings.Join(lines[1:], " ")
			more = more || len(lines) > 1
		} else {
			cell = Cut(cell, widths[i])
		}
		pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
		if slices.Contains(l.Right, i) {
			line.WriteString(pad + cell + "  ")
		} else {
			line.WriteString(cell + pad + "  ")
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	return rest, more
}

// widths are those of the columns, -1 for one that is left out.
func (l Layout) widths(rows [][]string) []int {
	var whole []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(whole) {
				whole = append(whole, 0)
			}
			whole[i] = max(whole[i], utf8.RuneCountInString(cell))
		}
	}
	widths, over := l.cut(whole, nil, leastWidth, leastProse)
	for dropped := 0; over > 0 && dropped < len(l.Drop); {
		dropped++
		widths, over = l.cut(whole, l.Drop[:dropped], leastWidth, leastProse)
	}
	if over > 0 {
		widths, _ = l.cut(widths, l.Drop, narrowWidth, narrowProse)
	}
	return widths
}

// cut is the widths of the columns without some, cut as far as texts and prose may be, and by
// how many characters a line is still too wide.
func (l Layout) cut(whole, without []int, leastText, leastProse int) (widths []int, over int) {
	widths, over = slices.Clone(whole), -2
	for i, w := range whole {
		if slices.Contains(without, i) {
			widths[i] = -1
			continue
		}
		over += w + 2
	}
	over -= cmp.Or(l.Width, Width)
	for _, i := range l.Cut {
		least := leastText
		if slices.Contains(l.Prose, i) {
			least = leastProse
		}
		if i < len(widths) && over > 0 {
			less := min(over, max(0, widths[i]-least))
			widths[i] -= less
			over -= less
		}
	}
	return widths, over
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

// Fold breaks lines of more than width characters at spaces, and leaves others as they
// are. A broken line goes on behind its own indent; a longer word stays whole.
func Fold(s string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		text := strings.TrimRight(line, " \r\n")
		end := line[len(text):]
		indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
		for utf8.RuneCountInString(text) > width {
			first := breakAt(text, width)
			if first < 0 {
				break
			}
			b.WriteString(text[:first] + "\n")
			text = indent + strings.TrimLeft(text[first:], " ")
		}
		b.WriteString(text + end)
	}
	return b.String()
}

// breakAt is the length of the first line of a text of more than width characters: that
// of the words that fit, or of the first word; -1 where the text has one word.
func breakAt(text string, width int) int {
	at, n := -1, 0
	for i, c := range text {
		if c == ' ' && strings.TrimLeft(text[:i], " ") != "" && text[i-1] != ' ' {
			if n > width && at >= 0 {
				break
			}
			at = i
		}
		n++
	}
	return at
}
