package tabular

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/engine/osfile"
)

// The formats of tables.
const (
	CSV       = "csv"
	JSONLines = "jsonl"
	Parquet   = "parquet"
)

// Options say how a table is read.
type Options struct {
	Comma rune // between the columns of CSV; 0 means ','
	Skip  int  // lines above the header, or above the first row, of each file of text
	// Named reports whether the first row of CSV names the columns. head has the first rows. nil:
	// it does not.
	Named func(head [][]string) bool
}

// Table is a table whose rows can be read again and again. It is for one goroutine.
type Table struct {
	Path   string   // as it was given
	Format string   // CSV, JSONLines or Parquet
	Files  []string // that are read, in order
	Names  []string // of the columns; nil: they have none
	Width  int      // number of columns
	Nested []bool   // by column: it holds other things than texts, so it cannot be read; nil: all can
	Late   string   // of JSON lines: the first key that the first object lacks and another has; "": none
	Other  string   // the delimiter that its one column looks separated by; "": none

	options Options
	seen    []os.FileInfo  // by file: as it was when the table was opened
	orders  [][]int        // by file of CSV: the column of the table of each column; nil: that of the same number
	texts   int64          // JSON lines: rows
	packed  []*parquetFile // by file of Parquet
	kept    *kept          // nil: each reading is of the files
}

// Row is a row of a table, valid until the next one is read.
type Row struct {
	Fields [][]byte // by column; nil for one that is not read
	// Values says by column whether the field is a boolean or a number, and no text. nil: the file
	// is CSV, which does not tell them apart.
	Values []bool
	File   string
	at     []place // by column, in a text
	number int64   // of the row in a file of Parquet, from 1
}

// place is a position in a text: the line, and the column in bytes, from 1.
type place struct{ line, column int }

// At says where the field of a column stands: file:line:column, or file: row N.
func (r *Row) At(column int) string {
	if r.at == nil {
		return fmt.Sprintf("%s: row %d", r.File, r.number)
	}
	return fmt.Sprintf("%s:%d:%d", r.File, r.at[column].line, r.at[column].column)
}

// rows reads the rows of a file. A row is valid until the next one is read.
type rows interface {
	next(*Row) error // io.EOF after the last one
	Close() error
}

// Open finds the columns of the table at a path or pattern.
func Open(ctx context.Context, path string, o Options) (*Table, error) {
	names, err := Matches(path)
	if err != nil {
		return nil, err
	}
	t := &Table{Path: path, Files: names, options: o}
	for _, file := range names {
		format, err := FormatOf(ctx, file, o.Skip)
		if err != nil {
			return nil, err
		}
		if t.Format != "" && format != t.Format {
			return nil, fmt.Errorf("%w: %s is %s, and %s is %s: give files of one format", fault.ErrFormat, names[0], t.Format, file, format)
		}
		seen, err := os.Stat(osfile.Resolve(file))
		if err != nil {
			return nil, err
		}
		t.Format, t.seen = format, append(t.seen, seen)
	}
	switch t.Format {
	case Parquet:
		err = t.openParquet(ctx)
	case JSONLines:
		err = t.findKeys(ctx)
	default:
		err = t.openCSV(ctx)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Matches lists the files of a path or pattern.
func Matches(path string) ([]string, error) {
	st, err := os.Stat(osfile.Resolve(path))
	switch {
	case err == nil && st.IsDir():
		return nil, fmt.Errorf("%w: %s is a folder: name a file in it, or several by a pattern such as %q", fault.ErrSpec, path, filepath.Join(path, "*.csv"))
	case err == nil || !strings.ContainsAny(path, "*?["):
		return []string{path}, nil
	}
	found, err := glob(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the pattern %s: %w", fault.ErrSpec, path, err)
	case len(found) == 0:
		return nil, fmt.Errorf("no file matches: %w", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist})
	}
	slices.Sort(found)
	return found, nil
}

// glob is filepath.Glob, but for a folder that is there: its name is no pattern, whatever is in it.
func glob(path string) (found []string, err error) {
	dir, pattern := filepath.Split(path)
	entries, err := os.ReadDir(osfile.Resolve(dir))
	if err != nil || !strings.ContainsAny(dir, "*?[") {
		return filepath.Glob(path)
	}
	for _, e := range entries {
		ok, err := filepath.Match(pattern, e.Name())
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, dir+e.Name())
		}
	}
	return found, nil
}

// FormatOf finds the format of a file by its contents below so many lines. Text that is not JSON
// lines counts as CSV.
func FormatOf(ctx context.Context, path string, skip int) (format string, err error) {
	s, err := files.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	packed := s.Packed
	lines := files.NewLines(s, path)
	name := baseOf(path)
	switch magic, _ := lines.Reader.Peek(5); {
	case !isParquet(magic) && !(strings.HasSuffix(name, ".parquet") && bytes.HasPrefix(magic, []byte("PAR1"))):
	case packed:
		return "", fmt.Errorf("%w: %s is a packed Parquet file: unpack it first", fault.ErrFormat, path)
	default:
		return Parquet, nil
	}
	start, err := beginText(&lines, skip)
	if err != nil {
		return "", err
	}
	start = bytes.TrimLeft(start, " \t\r\n")
	if strings.HasSuffix(name, ".parquet") {
		return "", fmt.Errorf("%w: %s is not a Parquet file, which begins with PAR1", fault.ErrFormat, path)
	} else if strings.HasSuffix(name, ".jsonl") || strings.HasSuffix(name, ".ndjson") || isObject(start) {
		return JSONLines, nil
	}
	return CSV, nil
}

// Looks finds the format of the first file of a path or pattern, by its contents. texts says that
// it is JSON lines whose first object has a text of the key `text`: documents, and no table.
func Looks(ctx context.Context, path string) (format string, texts bool, err error) {
	names, err := Matches(path)
	if err != nil {
		return "", false, err
	}
	if format, err = FormatOf(ctx, names[0], 0); err != nil || format != JSONLines {
		return format, false, err
	}
	s, err := files.Open(ctx, names[0])
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lines := files.NewLines(s, names[0])
	line, err := lines.Next()
	if err == io.EOF {
		return format, false, nil
	}
	var object map[string]any
	if err == nil && json.Unmarshal(bytes.TrimPrefix(line, []byte("\ufeff")), &object) == nil {
		_, texts = object["text"].(string)
	}
	return format, texts, err
}

// baseOf is the name of a file without the suffix of a packed one.
func baseOf(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(path), ".gz"), ".zst")
}

// isParquet reports whether a file that begins so is one of Parquet. Behind its mark is no letter,
// unlike in a text.
func isParquet(b []byte) bool {
	return len(b) > 4 && string(b[:4]) == "PAR1" && b[4] < ' ' && !bytes.ContainsAny(b[4:], "\t\r\n") || len(b) == 4 && string(b) == "PAR1"
}

// isObject reports whether a text begins with a JSON object that has a key, or with a list of such
// objects. No table of CSV does: a quote would be within a field.
func isObject(b []byte) bool {
	b, list := bytes.CutPrefix(b, []byte("["))
	if list {
		b = bytes.TrimLeft(b, " \t\r\n")
	}
	b, object := bytes.CutPrefix(b, []byte("{"))
	return object && bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte(`"`))
}

// beginText skips a byte order mark and so many lines. It gives the text from there on: 4 KiB, or
// all that there is.
func beginText(l *files.Lines, skip int) ([]byte, error) {
	if mark, _ := l.Reader.Peek(3); string(mark) == "\ufeff" {
		if _, err := l.Reader.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	const peeked = 1 << 12
	start, err := l.Reader.Peek(peeked) // shorter for a small file
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	}
	if bytes.HasPrefix(start, []byte("PK\x03\x04")) || bytes.HasPrefix(start, []byte("\xd0\xcf\x11\xe0")) {
		return nil, fmt.Errorf("%w: %s is a workbook of a spreadsheet, or an archive: save its table as CSV", fault.ErrFormat, l.Path)
	}
	if bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")) || bytes.IndexByte(start, 0) >= 0 {
		return nil, fmt.Errorf("%w: %s is UTF-16 or no text: save it as UTF-8", fault.ErrFormat, l.Path)
	}
	if i := bytes.IndexByte(start, '\r'); i >= 0 && i < len(start)-1 && bytes.IndexByte(start, '\n') < 0 {
		return nil, fmt.Errorf("%w: %s ends its lines with a carriage return alone: save it with the line ends of Unix or Windows", fault.ErrFormat, l.Path)
	}
	for i := range skip {
		line, err := l.Next()
		if err == io.EOF {
			return nil, fault.Option("skip_rows", fmt.Errorf("%w: %s has %d lines, and skip_rows is %d: skip fewer", fault.ErrSpec, l.Path, i, skip))
		}
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); isObject(line) && json.Valid(line) {
			return nil, fault.Option("skip_rows", fmt.Errorf("%w: %s:%d: this line is an object, and skip_rows is %d: skip fewer, or none with --set data.skip_rows=0", fault.ErrSpec, l.Path, i+1, skip))
		}
	}
	if skip > 0 {
		start, _ = l.Reader.Peek(peeked)
	}
	return start, nil
}

// Each hands over the rows of all files, until ctx is done or f fails. used says which columns are
// read; nil: all are. It fails, too, if a file is not as it was when the table was opened.
func (t *Table) Each(ctx context.Context, used []bool, f func(row *Row) error) error {
	switch {
	case !t.kept.has(used):
	case t.kept.whole:
		return t.kept.each(ctx, t, f)
	default:
		return t.kept.write(ctx, t, f)
	}
	for i := range t.Files {
		if err := t.eachOf(ctx, i, used, f); err != nil {
			return err
		}
	}
	return nil
}

// eachOf is Each for one of the files.
func (t *Table) eachOf(ctx context.Context, file int, used []bool, f func(row *Row) error) (err error) {
	r, err := t.openRows(ctx, file, used)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	row := Row{File: t.Files[file]}
	for err == nil {
		if err = r.next(&row); err == nil {
			err = f(&row)
		}
	}
	if err == io.EOF || errors.Is(err, fault.ErrFormat) { // which a change may have led to
		if changed := t.unchanged(file); changed != nil {
			return changed
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// unchanged refuses a file that was replaced or written to.
func (t *Table) unchanged(file int) error {
	path := t.Files[file]
	now, err := os.Stat(osfile.Resolve(path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !same(t.seen[file], now) {
		return changed(path)
	}
	return err
}

// same reports whether two looks at a file saw the same contents.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// openRows begins to read a file below its header.
func (t *Table) openRows(ctx context.Context, file int, used []bool) (rows, error) {
	if t.Format == Parquet {
		return t.packed[file].rows(ctx, used)
	}
	s, err := files.Open(ctx, t.Files[file])
	if err != nil {
		return nil, err
	}
	var r rows
	if t.Format == JSONLines {
		r, err = t.jsonRows(s, file, used)
	} else {
		r, err = t.csvRows(s, file)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return r, nil
}

// Size bounds the table: its rows, and their fields that are numbers.
type Size struct{ Rows, Fields int64 }

// Measure reads the table for its size.
func (t *Table) Measure(ctx context.Context) (size Size, err error) {
	if t.Format == Parquet {
		for _, p := range t.packed {
			size.Rows += p.file.NumRows()
		}
		return Size{size.Rows, size.Rows * int64(t.Width)}, nil
	}
	for _, file := range t.Files {
		s, err := files.Measure(ctx, file)
		if err != nil {
			return size, err
		}
		size.Rows += s.Lines + 1
		size.Fields += (s.Bytes + 1) / 2 // a digit and a delimiter
	}
	return size, nil
}

// Changed is the error of a table that has other rows than a moment ago.
func (t *Table) Changed() error { return changed(t.Path) }

func changed(path string) error {
	return fmt.Errorf("%w: %s changed while it was read: try again once nothing writes to it", fault.ErrFormat, path)
}

// empty is the error of a table without rows.
func (t *Table) empty() error {
	if t.Names != nil {
		return fmt.Errorf("%w: %s has a header but no rows: put samples below it", fault.ErrTooFew, t.Path)
	}
	return fmt.Errorf("%w: %s is empty: put a row in it for each sample", fault.ErrTooFew, t.Path)
}

// match finds the columns of the table that another file's names are. The first file has names.
func (t *Table) match(file string, names []string) ([]int, error) {
	column, err := numbered(t.Files[0], t.Names)
	if err != nil {
		return nil, err
	}
	theirs, err := numbered(file, names)
	if err != nil {
		return nil, err
	}
	order, same := make([]int, len(names)), true
	for i, name := range names {
		j, known := column[name]
		if !known {
			return nil, fmt.Errorf("%w: %s has the column %q, and %s lacks it: give files of the same columns, skip what is above their headers with data.skip_rows, or set data.header: false if they have none", fault.ErrFormat, file, short(name), t.Files[0])
		}
		order[i], same = j, same && i == j
	}
	for _, name := range t.Names {
		if _, has := theirs[name]; !has {
			return nil, fmt.Errorf("%w: %s lacks the column %q that %s has: give files of the same columns", fault.ErrFormat, file, short(name), t.Files[0])
		}
	}
	if same {
		return nil, nil
	}
	return order, nil
}

// numbered is the number of each column of a file. It refuses a name that two have.
func numbered(file string, names []string) (map[string]int, error) {
	column := make(map[string]int, len(names))
	for i, name := range names {
		if first, twice := column[name]; twice {
			return nil, fmt.Errorf("%w: %s: the columns %d and %d are both called %q: rename one", fault.ErrFormat, file, first+1, i+1, short(name))
		}
		column[name] = i
	}
	return column, nil
}

// short is a name for an error.
func short(name string) string {
	const most = 40
	if len(name) > most {
		return name[:most] + "…"
	}
	return name
}
