package tabular

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/datasets/files"
)

// jsonRows reads the rows of a file of JSON lines: an object on each line.
type jsonRows struct {
	files.Lines
	in    io.Closer
	keys  *keys
	used  []bool // by column; nil: all are
	row   int    // rows read
	text  []byte // the values of a row, one after another
	ends  []span // by column
	seen  []int  // by column: the last row that has it
	key   []byte // as it is written out
	guess int    // the column of the next key, if rows have their keys in one order
}

// span is a value in jsonRows.text; with from < 0 there is none. word: it is a boolean or a number.
type span struct {
	from, to int
	word     bool
}

// noSpan is the place of a value that is missing, or not read.
var noSpan = span{from: -1, to: -1}

// keys are the columns of a table of JSON lines.
type keys struct {
	names  []string
	nested []bool // by column: some value is a list or an object
	column map[string]int
	grow   bool // new keys become columns; otherwise the file has changed
	bytes  int  // of all names
	given  int  // keys of all objects so far
	first  int  // keys of the first object
}

// A table with more columns than manyColumns, of which an object has fewer than one in leastGiven on
// average, is refused: it would take the time of the whole grid, and its keys are probably values.
const (
	manyColumns = 4096
	leastGiven  = 100
)

// mostKeyBytes is the bytes that all names of a table's columns may have.
const mostKeyBytes = 64 << 20

// findKeys finds the columns of JSON lines: the keys of all objects, in the order in which they
// first come.
func (t *Table) findKeys(ctx context.Context) error {
	k := &keys{column: map[string]int{}, grow: true}
	for _, file := range t.Files {
		if err := t.keysOf(ctx, file, k); err != nil {
			return err
		}
	}
	if t.texts == 0 {
		return t.empty()
	}
	t.Names, t.Nested, t.Width = k.names, k.nested, len(k.names)
	if k.first < t.Width {
		t.Late = t.Names[k.first]
	}
	if t.Width == 0 {
		return fmt.Errorf("%w: %s has objects without keys: give each a key for each column", fault.ErrFormat, t.Path)
	}
	return nil
}

// keysOf adds the keys of a file.
func (t *Table) keysOf(ctx context.Context, file string, k *keys) (err error) {
	s, err := files.Open(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := newJSONRows(s, s, file, t.options.Skip, k, []bool{})
	if err != nil {
		return err
	}
	var row Row
	for {
		if err := r.next(&row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if t.texts++; t.texts == 1 {
			k.first = len(k.names)
		}
		if n := len(k.names); n > manyColumns && int64(k.given)*leastGiven < int64(t.texts)*int64(n) {
			return r.bad(0, "the objects have %d different keys so far, and %d each on average: the keys look like values; write them as the values of one key", n, int64(k.given)/t.texts)
		}
	}
}

// jsonRows begins to read a file.
func (t *Table) jsonRows(in *files.Stream, file int, used []bool) (rows, error) {
	k := &keys{names: t.Names, column: make(map[string]int, t.Width)}
	for i, name := range t.Names {
		k.column[name] = i
	}
	return newJSONRows(in, in, t.Files[file], t.options.Skip, k, used)
}

func newJSONRows(in io.Reader, c io.Closer, path string, skip int, k *keys, used []bool) (*jsonRows, error) {
	r := &jsonRows{Lines: files.NewLines(in, path), in: c, keys: k, used: used}
	_, err := beginText(&r.Lines, skip)
	return r, err
}

// Close closes the file.
func (r *jsonRows) Close() error { return r.in.Close() }

// next reads the object on the next line that is not blank.
func (r *jsonRows) next(row *Row) error {
	var line []byte
	for len(line) == 0 {
		var err error
		if line, err = r.Lines.Next(); err != nil {
			return err
		}
		line = bytes.TrimRight(line, " \t\r")
		if len(bytes.TrimLeft(line, " \t\r")) == 0 {
			line = nil
		}
	}
	r.row++
	r.text, r.guess = r.text[:0], 0
	row.at = resize(row.at, len(r.keys.names))
	r.ends, r.seen = resize(r.ends, len(r.keys.names)), resize(r.seen, len(r.keys.names))
	for i := range r.ends {
		r.ends[i], row.at[i] = noSpan, place{r.Line, 1}
	}
	if err := r.object(line, row); err != nil {
		return err
	}
	row.Fields, row.Values = resize(row.Fields, len(r.keys.names)), resize(row.Values, len(r.keys.names))
	for i, e := range r.ends {
		row.Values[i] = e.word
		if row.Fields[i] = nil; e.from >= 0 {
			row.Fields[i] = r.text[e.from:e.to]
		}
	}
	return nil
}

// resize is a slice with so many elements, of which new ones are zero.
func resize[T any](s []T, n int) []T {
	if len(s) >= n {
		return s[:n]
	}
	return append(s, make([]T, n-len(s))...)
}

// bad is an error at a byte of the line.
func (r *jsonRows) bad(at int, format string, args ...any) error {
	return fmt.Errorf("%w: %s:%d:%d: %s", fault.ErrFormat, r.Path, r.Line, at+1, fmt.Sprintf(format, args...))
}

// object reads the object that a line is.
func (r *jsonRows) object(line []byte, row *Row) error {
	at := blanks(line, 0)
	switch {
	case line[at] == '[' && r.row == 1:
		return r.bad(at, "this is a list, and JSON lines have an object on each line: write each object of the list on a line of its own, without commas between them")
	case line[at] != '{':
		return r.bad(at, `expected a JSON object, such as {"age": 41, "plan": "gold"}`)
	}
	if at = blanks(line, at+1); at < len(line) && line[at] == '}' {
		return r.ended(line, at+1)
	}
	for {
		column, next, err := r.readKey(line, at)
		if err != nil {
			return err
		}
		if at, err = r.value(line, next, column, row); err != nil {
			return err
		}
		at = blanks(line, at)
		switch {
		case at < len(line) && line[at] == '}':
			return r.ended(line, at+1)
		case at < len(line) && line[at] == ',':
			at = blanks(line, at+1)
		case at < len(line):
			return r.bad(at, "expected a comma or } behind a value")
		default:
			return r.unended(at)
		}
	}
}

// ended refuses text behind an object.
func (r *jsonRows) ended(line []byte, at int) error {
	if at = blanks(line, at); at < len(line) {
		return r.bad(at, "there is text behind the object: write each object on a line of its own")
	}
	return nil
}

// unended is the error of an object that its line does not end.
func (r *jsonRows) unended(at int) error {
	return r.bad(at, "the object does not end on this line: write each object on one line")
}

// blanks is the first position from at on that is no space.
func blanks(line []byte, at int) int {
	for at < len(line) && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
		at++
	}
	return at
}

// readKey reads a key, and what is behind it up to its value. It gives the column.
func (r *jsonRows) readKey(line []byte, at int) (column, next int, err error) {
	from := at
	if r.key, next, err = r.readString(line, at, r.key[:0], "a key in quotes"); err != nil {
		return 0, 0, err
	}
	if column, err = r.columnOf(r.key, from); err != nil {
		return 0, 0, err
	}
	if r.seen[column] == r.row {
		return 0, 0, r.bad(from, "the key %q comes twice in the object: take one out", short(string(r.key)))
	}
	r.seen[column] = r.row
	if next = blanks(line, next); next == len(line) {
		return 0, 0, r.unended(next)
	} else if line[next] != ':' {
		return 0, 0, r.bad(next, "expected a colon behind the key")
	}
	if next = blanks(line, next+1); next == len(line) {
		return 0, 0, r.unended(next)
	}
	return column, next, nil
}

// columnOf is the column of a key.
func (r *jsonRows) columnOf(key []byte, at int) (int, error) {
	k := r.keys
	k.given++
	if r.guess < len(k.names) && k.names[r.guess] == string(key) {
		r.guess++
		return r.guess - 1, nil
	}
	column, known := k.column[string(key)]
	switch {
	case known:
	case !k.grow:
		return 0, changed(r.Path)
	case len(k.names) == mostColumns:
		return 0, r.bad(at, "the key %q is one more than %d: is it the right file?", short(string(key)), mostColumns)
	default:
		if k.bytes += len(key); k.bytes > mostKeyBytes {
			return 0, r.bad(at, "the keys take more than %d MiB: is it the right file?", mostKeyBytes>>20)
		}
		column = len(k.names)
		k.names, k.nested = append(k.names, string(key)), append(k.nested, false)
		k.column[k.names[column]] = column
		r.ends, r.seen = append(r.ends, noSpan), append(r.seen, 0)
	}
	r.guess = column + 1
	return column, nil
}

// value reads the value of a column. It gives the position behind it.
func (r *jsonRows) value(line []byte, at, column int, row *Row) (next int, err error) {
	used := r.used == nil || column < len(r.used) && r.used[column]
	if column < len(row.at) {
		row.at[column] = place{r.Line, at + 1}
	}
	from, word := len(r.text), false
	switch c := line[at]; {
	case c == '"':
		if r.text, next, err = r.readString(line, at, r.text, "a text"); err != nil {
			return 0, err
		}
	case c == '{' || c == '[':
		if used {
			name := short(r.keys.names[column])
			if c == '[' && bytes.Contains(line[at:], []byte(`"role"`)) {
				return 0, r.bad(at, "the value of %q is a list or an object: conversations are no table: read them by a config with data.source text and data.field %s", name, name)
			}
			return 0, r.bad(at, "the value of %q is a list or an object: write its values as keys of their own, or leave it out with data.ignore", name)
		}
		if r.keys.grow {
			r.keys.nested[column] = true
		}
		return r.nested(line, at)
	default:
		if next = at; next < len(line) {
			next += wordLen(line[at:])
		}
		text := line[at:next]
		if len(text) == 0 || !json.Valid(text) {
			return 0, r.bad(at, "%.40q is not a JSON value: expected a number, a text in quotes, true, false or null", text)
		}
		if c == 'n' {
			return next, nil
		}
		r.text, word = append(r.text, text...), true
	}
	if used {
		r.ends[column] = span{from, len(r.text), word}
	} else {
		r.text = r.text[:from]
	}
	return next, nil
}

// wordLen is the number of bytes of a number or a word.
func wordLen(b []byte) int {
	if i := bytes.IndexAny(b, " \t\r,}]:\"{["); i >= 0 {
		return i
	}
	return len(b)
}

// nested skips a list or an object.
func (r *jsonRows) nested(line []byte, at int) (next int, err error) {
	depth := 0
	for next = at; next < len(line); next++ {
		switch line[next] {
		case '"':
			if _, next, err = r.stringEnd(line, next); err != nil {
				return 0, err
			}
			next--
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				if next++; !json.Valid(line[at:next]) {
					return 0, r.bad(at, "this is no list or object of JSON")
				}
				return next, nil
			}
		}
	}
	return 0, r.unended(next)
}

// stringEnd finds the end of a string, behind its quote, and whether it has escapes.
func (r *jsonRows) stringEnd(line []byte, at int) (escaped bool, next int, err error) {
	for next = at + 1; next < len(line); next++ {
		switch c := line[next]; {
		case c == '"':
			return escaped, next + 1, nil
		case c == '\\':
			escaped = true
			next++
		case c < ' ':
			return false, 0, r.bad(next, "the byte %#02x may not be in a text: write it as \\u%04x", c, c)
		}
	}
	return false, 0, r.bad(at, "the quote that opens here is not closed on this line")
}

// readString appends a string to dst, without its quotes and escapes.
func (r *jsonRows) readString(line []byte, at int, dst []byte, what string) (out []byte, next int, err error) {
	if at == len(line) {
		return dst, 0, r.unended(at)
	}
	if line[at] != '"' {
		return dst, 0, r.bad(at, "expected %s", what)
	}
	escaped, next, err := r.stringEnd(line, at)
	if err != nil {
		return dst, 0, err
	}
	body := line[at+1 : next-1]
	switch {
	case !utf8.Valid(body):
		return dst, 0, r.bad(at, "%.40q is not UTF-8: save the file as UTF-8", body)
	case !escaped:
		return append(dst, body...), next, nil
	}
	var text string
	if err := json.Unmarshal(line[at:next], &text); err != nil {
		return dst, 0, r.bad(at, "%.40q has an escape that JSON lacks", body)
	}
	return append(dst, text...), next, nil
}
