package datasets

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// csvRows reads the rows of a CSV file, all as wide as the first.
type csvRows struct {
	rd    *csv.Reader
	path  string // for errors
	comma rune   // as it was given; 0 means ','
	width int    // columns; 0 before the first row
	first string // the first field of the first row; before that row is read, the first line
}

// csvRow is a row and the positions of its fields.
type csvRow struct {
	fields []string
	at     []csvPos
}

// csvPos is a field's line and column, in bytes from 1.
type csvPos struct{ line, column int }

// newCSVRows starts to read r, after a byte order mark.
func newCSVRows(r io.Reader, path string, comma rune) (*csvRows, error) {
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		if _, err := b.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	start, _ := b.Peek(b.Size()) // shorter for a small file
	rows := &csvRows{rd: csv.NewReader(b), path: path, comma: comma}
	rows.first, _, _ = strings.Cut(string(start), "\n")
	rows.rd.ReuseRecord = true
	rows.rd.TrimLeadingSpace = true
	if comma != 0 {
		rows.rd.Comma = comma
	}
	return rows, nil
}

// next reads a row into row, or gives io.EOF. The row is valid until the next
// call.
func (r *csvRows) next(row *csvRow) error {
	rec, err := r.rd.Read()
	switch {
	case err == io.EOF:
		return err
	case errors.Is(err, csv.ErrFieldCount):
		line, _ := r.rd.FieldPos(0)
		hint := r.otherComma()
		if hint == "" {
			hint = fmt.Sprintf(": complete the row, or quote fields that have a %q in them", r.rd.Comma)
		}
		return fmt.Errorf("%w: %s:%d: %d columns where the first row has %d%s", ErrFormat, r.path, line, len(rec), r.width, hint)
	case err != nil:
		return r.wrap(err)
	}
	if r.width == 0 {
		r.width, r.first = len(rec), rec[0]
	}
	row.fields, row.at = rec, row.at[:0]
	for i := range rec {
		line, column := r.rd.FieldPos(i)
		row.at = append(row.at, csvPos{line, column})
	}
	return nil
}

// otherComma advises another delimiter if the first row is one column and
// another character divides it. Otherwise it gives "".
func (r *csvRows) otherComma() string {
	if r.width > 1 || r.width == 0 && strings.ContainsRune(r.first, cmp.Or(r.comma, ',')) {
		return ""
	}
	for _, comma := range []string{";", "\t", "|"} {
		if strings.Contains(r.first, comma) {
			return fmt.Sprintf("; they look separated by %q: set data.delimiter to that", comma)
		}
	}
	return ""
}

// wrap adds the file and position to an error of the parser.
func (r *csvRows) wrap(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		if hint := r.otherComma(); hint != "" {
			return blame("delimiter", fmt.Errorf("%w: %s:%d:%d: the quotes do not fit the columns%s", ErrFormat, r.path, p.Line, p.Column, hint))
		}
		return fmt.Errorf("%w: %s:%d:%d: %v", ErrFormat, r.path, p.Line, p.Column, p.Err)
	}
	return fmt.Errorf("%s: %w", r.path, err)
}
