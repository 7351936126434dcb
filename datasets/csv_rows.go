package datasets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/columns"
)

// csvRows reads the rows of a CSV file, all as wide as the first. A row takes no
// memory of its own: it is valid until the next one is read.
type csvRows struct {
	lines
	comma rune
	width int    // columns; 0 before the first row
	first string // the first field of the first row; before that row is read, the first line
	text  []byte // the row's fields without quotes, one after another
	ends  []int  // of each field in text
	extra int    // fields of the row beyond width, which are not kept
}

// mostColumns is the number of columns beyond which a row is not one of a table. A
// column takes some 100 bytes beside its numbers.
const mostColumns = 1 << 20

// csvRow is a row and the positions of its fields.
type csvRow struct {
	fields [][]byte
	at     []csvPos
}

// clone is a row that stays valid.
func (r csvRow) clone() csvRow {
	c := csvRow{make([][]byte, len(r.fields)), slices.Clone(r.at)}
	for i, f := range r.fields {
		c.fields[i] = bytes.Clone(f)
	}
	return c
}

// csvPos is a position in a file: the line, and the column in bytes, from 1.
type csvPos struct{ line, column int }

// newCSVRows starts to read r, after a byte order mark. comma 0 means ','.
func newCSVRows(r io.Reader, path string, comma rune) (*csvRows, error) {
	rows := &csvRows{lines: newLines(r, path), comma: cmp.Or(comma, ',')}
	if strings.ContainsRune("\"\r\n\ufffd", rows.comma) || !utf8.ValidRune(rows.comma) {
		return nil, blame("delimiter", fmt.Errorf("%w: the delimiter cannot be %q: use another", ErrSpec, rows.comma))
	}
	if mark, _ := rows.rd.Peek(3); string(mark) == "\ufeff" {
		if _, err := rows.rd.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	start, _ := rows.rd.Peek(1 << 12) // shorter for a small file
	if bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")) || bytes.IndexByte(start, 0) >= 0 {
		return nil, fmt.Errorf("%w: %s is UTF-16 or no text: save it as UTF-8", ErrFormat, path)
	}
	if i := bytes.IndexByte(start, '\r'); i >= 0 && i < len(start)-1 && bytes.IndexByte(start, '\n') < 0 {
		return nil, fmt.Errorf("%w: %s ends its lines with a carriage return alone: save it with the line ends of Unix or Windows", ErrFormat, path)
	}
	rows.first, _, _ = strings.Cut(string(start), "\n")
	return rows, nil
}

// next reads a row into row, or gives io.EOF. The row is valid until the next
// call.
func (r *csvRows) next(row *csvRow) error {
	line, err := r.nextLine()
	for err == nil && r.ended(line) {
		line, err = r.nextLine()
	}
	if err != nil {
		return err
	}
	r.text, r.ends, r.extra, row.fields, row.at = r.text[:0], r.ends[:0], 0, row.fields[:0], row.at[:0]
	if err := r.split(line, row); err != nil {
		return err
	}
	from := 0
	for _, end := range r.ends {
		row.fields = append(row.fields, r.text[from:end])
		from = end
	}
	if r.width == 0 {
		r.width, r.first = len(row.fields), string(row.fields[0])
	}
	if have := len(row.fields) + r.extra; have != r.width {
		hint := r.otherComma()
		if hint == "" {
			hint = fmt.Sprintf(": complete the row, or quote fields that have a %q in them", r.comma)
		}
		return fmt.Errorf("%w: %s:%d: %d columns where the first row has %d%s", ErrFormat, r.path, row.at[0].line, have, r.width, hint)
	}
	return nil
}

// split divides the row that begins with line into text and ends. Spaces before
// a field do not count, except for the delimiter if that is one.
func (r *csvRows) split(line []byte, row *csvRow) error {
	comma := utf8.RuneLen(r.comma)
	for column := 1; ; {
		field := bytes.TrimLeftFunc(line, r.isSpace)
		column += len(line) - len(field)
		row.at = append(row.at, csvPos{r.line, column})
		rest, err := field, error(nil)
		if len(field) > 0 && field[0] == '"' {
			rest, column, err = r.quoted(field, column)
		} else {
			rest, err = r.unquoted(field, column)
			column += len(field) - len(rest)
		}
		r.ends = append(r.ends, len(r.text))
		if err != nil || r.ended(rest) {
			return err
		}
		if err := r.bound(row); err != nil {
			return err
		}
		line = rest[comma:] // rest begins with one
		column += comma
	}
}

// bound refuses a first row of too many columns, and forgets the last field of a row
// that is longer than the first: such a row is refused once it is counted.
func (r *csvRows) bound(row *csvRow) error {
	switch n := len(r.ends); {
	case r.width == 0 && n == mostColumns:
		return fmt.Errorf("%w: %s:%d: the row has more than %d columns: is it the right file?", ErrFormat, r.path, r.line, mostColumns)
	case r.width > 0 && n > r.width:
		r.text, r.ends, row.at = r.text[:r.ends[n-2]], r.ends[:n-1], row.at[:n-1]
		r.extra++
	}
	return nil
}

// isSpace reports whether c is a space that may stand before a field. If spaces
// are the delimiter, several of them count as one.
func (r *csvRows) isSpace(c rune) bool { return unicode.IsSpace(c) && (c != r.comma || c == ' ') }

// ended reports whether the rest of a line has no more fields. Spaces at its end
// delimit none.
func (r *csvRows) ended(rest []byte) bool {
	return len(rest) == 0 || r.comma == ' ' && len(bytes.TrimLeft(rest, " ")) == 0
}

// unquoted adds a field to text and gives the rest of its line, from the comma
// on. column is the field's.
func (r *csvRows) unquoted(line []byte, column int) ([]byte, error) {
	field := line
	if i := bytes.IndexRune(line, r.comma); i >= 0 {
		field = line[:i]
	}
	if i := bytes.IndexByte(field, '"'); i >= 0 {
		return nil, r.misquoted(csvPos{r.line, column + i}, "a quote is inside a field that does not begin with one: put the field in quotes, and double each quote in it")
	}
	r.text = append(r.text, field...)
	return line[len(field):], nil
}

// quoted adds a field in quotes to text, and gives the rest of its last line and
// the column at which that begins. column is that of the opening quote.
func (r *csvRows) quoted(line []byte, column int) ([]byte, int, error) {
	opened := csvPos{r.line, column}
	line, column = line[1:], column+1
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 { // the field goes on in the next line
			r.text = append(append(r.text, line...), '\n')
			if len(r.text) > mostRow {
				return nil, 0, r.misquoted(opened, fmt.Sprintf("the quote that opens here is not closed within %d MiB: close it, or take it out", mostRow>>20))
			}
			next, err := r.nextLine()
			if err == io.EOF {
				err = r.misquoted(opened, "the quote that opens here is never closed: close it, or take it out")
			}
			if err != nil {
				return nil, 0, err
			}
			line, column = next, 1
			continue
		}
		r.text = append(r.text, line[:i]...)
		line, column = line[i+1:], column+i+1
		if len(line) == 0 || line[0] != '"' {
			break
		}
		r.text = append(r.text, '"')
		line, column = line[1:], column+1
	}
	if next, _ := utf8.DecodeRune(line); len(line) > 0 && next != r.comma {
		return nil, 0, r.misquoted(csvPos{r.line, column - 1}, "text follows the quote that closes this field: double each quote inside a field")
	}
	return line, column, nil
}

// misquoted is an error about quotes.
func (r *csvRows) misquoted(at csvPos, msg string) error {
	if hint := r.otherComma(); hint != "" {
		return blame("delimiter", fmt.Errorf("%w: %s:%d:%d: the quotes do not fit the columns%s", ErrFormat, r.path, at.line, at.column, hint))
	}
	return fmt.Errorf("%w: %s:%d:%d: %s", ErrFormat, r.path, at.line, at.column, msg)
}

// otherComma advises another delimiter if the first row is one column and
// another character divides it. Otherwise it gives "".
func (r *csvRows) otherComma() string {
	if r.width > 1 || r.width == 0 && strings.ContainsRune(r.first, r.comma) {
		return ""
	}
	for _, comma := range []string{";", "\t", "|"} {
		if strings.Contains(r.first, comma) {
			return fmt.Sprintf("; they look separated by %q: set data.delimiter to that", comma)
		}
	}
	return ""
}

// tableRows is a table whose rows can be read again and again. f's error ends the reading.
type tableRows func(ctx context.Context, f func(row csvRow) error) error

// csvSource reads the rows of a file below its header.
func csvSource(in csvInput, header bool) tableRows {
	return func(ctx context.Context, f func(row csvRow) error) (err error) {
		s, err := openStream(ctx, in.path)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		rows, err := newCSVRows(s, in.path, in.opt.Comma)
		if err != nil {
			return err
		}
		var row csvRow
		for i := 0; ; i++ {
			switch err := rows.next(&row); {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			case i == 0 && header:
			default:
				if err := f(row); err != nil {
					return err
				}
			}
		}
	}
}

// headRows are the first rows of a table.
type headRows struct {
	rows [][]string
	hint string // about another delimiter
}

// headCount is the number of rows that show whether the first names the columns.
const headCount = 1000

// firstRows reads the first rows.
func firstRows(ctx context.Context, in csvInput) (head headRows, err error) {
	s, err := openStream(ctx, in.path)
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rows, err := newCSVRows(s, in.path, in.opt.Comma)
	if err != nil {
		return head, err
	}
	var row csvRow
	for bytes := 0; len(head.rows) <= headCount && bytes < mostRow; {
		err := rows.next(&row)
		if err == io.EOF {
			break
		}
		if err != nil {
			return head, err
		}
		head.rows = append(head.rows, trimmed(row.fields))
		for _, f := range row.fields {
			bytes += len(f) + 16
		}
	}
	if len(head.rows) == 0 {
		return head, fmt.Errorf("%w: %s is empty: put a row in it for each sample", ErrTooFew, in.path)
	}
	head.hint = rows.otherComma()
	return head, nil
}

// second is the second row, nil if there is none.
func (h *headRows) second() []string {
	if len(h.rows) < 2 {
		return nil
	}
	return h.rows[1]
}

// namesAll reports whether the first row names the columns of a model, whose training file
// had a header. The names may be numbers.
func (h *headRows) namesAll(f *columns.Fitted) bool {
	if f == nil || !f.Header {
		return false
	}
	names := make(map[string]int, len(h.rows[0]))
	for i, name := range h.rows[0] {
		names[name] = i
	}
	return namesAll(names, f)
}

// named reports whether the first row names the columns: it has different words, none is a
// number, and none comes again in its column.
func (h *headRows) named(missing []string) bool {
	seen := map[string]bool{}
	for i, name := range h.rows[0] {
		if seen[name] || isNumber(name) || columns.IsMissing(missing, []byte(name)) {
			return false
		}
		seen[name] = true
		for _, row := range h.rows[1:] {
			if row[i] == name {
				return false
			}
		}
	}
	return true
}
