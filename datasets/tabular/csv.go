package tabular

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/datasets/files"
)

// csvRows reads the rows of a CSV file, all as wide as the first. A row takes no
// memory of its own: it is valid until the next one is read.
type csvRows struct {
	files.Lines
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

// newCSVRows starts to read r, after a byte order mark and so many lines. comma 0 means ','.
func newCSVRows(r io.Reader, path string, comma rune, skip int) (*csvRows, error) {
	rows := &csvRows{Lines: files.NewLines(r, path), comma: cmp.Or(comma, ',')}
	if strings.ContainsRune("\"\r\n\ufffd", rows.comma) || !utf8.ValidRune(rows.comma) {
		return nil, fault.Option("delimiter", fmt.Errorf("%w: the delimiter cannot be %q: use another", fault.ErrSpec, rows.comma))
	}
	start, err := beginText(&rows.Lines, skip)
	if err != nil {
		return nil, err
	}
	rows.first, _, _ = strings.Cut(string(start), "\n")
	if said := separatorIn(rows.first); said != "" && skip == 0 {
		if said != string(rows.comma) {
			return nil, fault.Option("delimiter", fmt.Errorf("%w: %s:1: this line says that %q separates columns: set data.delimiter to that", fault.ErrFormat, path, said))
		}
		if _, err := rows.Next(); err != nil {
			return nil, err
		}
		start, _ = rows.Reader.Peek(len(start)) // shorter for a small file
		rows.first, _, _ = strings.Cut(string(start), "\n")
	}
	return rows, nil
}

// separatorIn is the delimiter that the first line of a file names for spreadsheets, such as sep=;. It is "" for
// other lines.
func separatorIn(line string) string {
	line = strings.Trim(line, "\"\r")
	if len(line) < 5 || !strings.EqualFold(line[:4], "sep=") || utf8.RuneCountInString(line[4:]) != 1 {
		return ""
	}
	return line[4:]
}

// next reads a row into row, or gives io.EOF. The row is valid until the next
// call.
func (r *csvRows) next(row *Row) error {
	line, err := r.Next()
	for err == nil && r.ended(line) {
		line, err = r.Next()
	}
	if err != nil {
		return err
	}
	r.text, r.ends, r.extra, row.Fields, row.at = r.text[:0], r.ends[:0], 0, row.Fields[:0], row.at[:0]
	if err := r.split(line, row); err != nil {
		return err
	}
	from := 0
	for _, end := range r.ends {
		row.Fields = append(row.Fields, r.text[from:end])
		from = end
	}
	if r.width == 0 {
		r.width, r.first = len(row.Fields), string(row.Fields[0])
	}
	if have := len(row.Fields) + r.extra; have != r.width {
		hint := CommaHint(r.otherComma())
		if hint == "" {
			hint = fmt.Sprintf(": complete the row, or quote fields that have a %q in them", r.comma)
		}
		return fmt.Errorf("%w: %s:%d: %d columns where the first row has %d%s", fault.ErrFormat, r.Path, row.at[0].line, have, r.width, hint)
	}
	return nil
}

// split divides the row that begins with line into text and ends. Spaces before
// a field do not count, except for the delimiter if that is one.
func (r *csvRows) split(line []byte, row *Row) error {
	comma := utf8.RuneLen(r.comma)
	for column := 1; ; {
		field := bytes.TrimLeftFunc(line, r.isSpace)
		column += len(line) - len(field)
		row.at = append(row.at, place{r.Line, column})
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
func (r *csvRows) bound(row *Row) error {
	switch n := len(r.ends); {
	case r.width == 0 && n == mostColumns:
		return fmt.Errorf("%w: %s:%d: the row has more than %d columns: is it the right file?", fault.ErrFormat, r.Path, r.Line, mostColumns)
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
		return nil, r.misquoted(place{r.Line, column + i}, "a quote is inside a field that does not begin with one: put the field in quotes, and double each quote in it")
	}
	r.text = append(r.text, field...)
	return line[len(field):], nil
}

// quoted adds a field in quotes to text, and gives the rest of its last line and
// the column at which that begins. column is that of the opening quote.
func (r *csvRows) quoted(line []byte, column int) ([]byte, int, error) {
	opened := place{r.Line, column}
	line, column = line[1:], column+1
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 { // the field goes on in the next line
			r.text = append(append(r.text, line...), '\n')
			if len(r.text) > files.MostRow {
				return nil, 0, r.misquoted(opened, fmt.Sprintf("the quote that opens here is not closed within %d MiB: close it, or take it out", files.MostRow>>20))
			}
			next, err := r.Next()
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
		return nil, 0, r.misquoted(place{r.Line, column - 1}, "text follows the quote that closes this field: double each quote inside a field")
	}
	return line, column, nil
}

// misquoted is an error about quotes.
func (r *csvRows) misquoted(at place, msg string) error {
	if hint := CommaHint(r.otherComma()); hint != "" {
		return fault.Option("delimiter", fmt.Errorf("%w: %s:%d:%d: the quotes do not fit the columns%s", fault.ErrFormat, r.Path, at.line, at.column, hint))
	}
	return fmt.Errorf("%w: %s:%d:%d: %s", fault.ErrFormat, r.Path, at.line, at.column, msg)
}

// CommaHint advises the delimiter that rows look separated by; "" for none.
func CommaHint(comma string) string {
	if comma == "" {
		return ""
	}
	return fmt.Sprintf("; they look separated by %q: set data.delimiter to that", comma)
}

// otherComma is another delimiter if the first row is one column and that character
// divides it. Otherwise it is "".
func (r *csvRows) otherComma() string {
	if r.width > 1 || r.width == 0 && strings.ContainsRune(r.first, r.comma) {
		return ""
	}
	for _, comma := range []string{";", "\t", "|", ","} {
		if strings.Contains(r.first, comma) && comma != string(r.comma) {
			return comma
		}
	}
	return ""
}
