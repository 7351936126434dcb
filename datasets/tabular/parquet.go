package tabular

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/datasets/files"
)

// parquetFile is a file of Parquet, of which the end was read. It is opened anew for its rows.
type parquetFile struct {
	path    string
	order   []int // the column of the table of each column; nil: that of the same number
	file    *parquet.File
	columns []parquetColumn
	in      fileReader
	size    int64
	seen    os.FileInfo         // as it was when the table was opened
	checked map[[2]int]pageRoom // by row group and column: the memory of its pages
}

// parquetColumn is a column of a file.
type parquetColumn struct {
	name     string
	leaf     int // its number among those that have values
	text     func(dst []byte, v parquet.Value) []byte
	values   bool   // its values are booleans or numbers
	width    int64  // bytes of a value in memory; 0: a text
	optional bool   // values may be missing
	why      string // it cannot be read; "": it can
}

// openParquet reads the ends of all files.
func (t *Table) openParquet(ctx context.Context) error {
	rows := int64(0)
	for i, path := range t.Files {
		p := &parquetFile{path: path, seen: t.seen[i], checked: map[[2]int]pageRoom{}}
		if err := p.open(ctx); err != nil {
			return err
		}
		if err := p.in.file.Close(); err != nil {
			return err
		}
		names := make([]string, len(p.columns))
		for j, c := range p.columns {
			names[j] = c.name
		}
		if i == 0 {
			t.Names, t.Width, t.Nested = names, len(names), make([]bool, len(names))
		} else {
			var err error
			if p.order, err = t.match(path, names); err != nil {
				return err
			}
		}
		for j, c := range p.columns {
			if c.why != "" {
				t.Nested[p.column(j)] = true
			}
		}
		t.packed = append(t.packed, p)
		rows += p.file.NumRows()
	}
	if t.Width == 0 {
		return fmt.Errorf("%w: %s has no columns", fault.ErrFormat, t.Path)
	}
	if rows == 0 {
		return t.empty()
	}
	return nil
}

// open opens the file, which the caller closes.
func (p *parquetFile) open(ctx context.Context) error {
	in, size, err := files.OpenPlain(p.path)
	if err != nil {
		return err
	}
	st, err := in.Stat()
	if err == nil && !same(p.seen, st) {
		err = changed(p.path)
	}
	if err != nil {
		return errors.Join(err, in.Close())
	}
	p.size = size
	p.in.ctx, p.in.file = ctx, in
	if p.file == nil {
		if err := p.readEnd(); err != nil {
			return errors.Join(err, in.Close())
		}
	}
	return nil
}

// readEnd reads the end of a file, which lists its columns and row groups.
func (p *parquetFile) readEnd() (err error) {
	defer p.guard(&err)
	if err := checkEnd(&p.in, p.size); err != nil {
		return p.damaged(err)
	}
	p.file, err = parquet.OpenFile(&p.in, p.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return p.damaged(err)
	}
	if err := p.listColumns(); err != nil {
		return err
	}
	if err := p.checkCounts(); err != nil {
		return p.damaged(err)
	}
	return nil
}

// checkCounts refuses a file that has other rows in all than in its row groups, and a group in which
// a column has other values than the group has rows.
func (p *parquetFile) checkCounts() error {
	left := p.file.NumRows()
	for i, g := range p.file.Metadata().RowGroups {
		if g.NumRows < 0 || g.NumRows > left {
			return fmt.Errorf("row group %d has %d rows, and %d are left of the file's %d", i, g.NumRows, left, p.file.NumRows())
		}
		left -= g.NumRows
		for _, c := range p.columns {
			if c.why == "" && c.leaf >= 0 && c.leaf < len(g.Columns) && g.Columns[c.leaf].MetaData.NumValues != g.NumRows {
				return fmt.Errorf("row group %d has %d rows, and %d values of column %q", i, g.NumRows, g.Columns[c.leaf].MetaData.NumValues, short(c.name))
			}
		}
	}
	if left != 0 {
		return fmt.Errorf("the file has %d rows, and its row groups %d", p.file.NumRows(), p.file.NumRows()-left)
	}
	return nil
}

// damaged is the error of a file that cannot be read.
func (p *parquetFile) damaged(err error) error {
	if stop, ok := errors.AsType[*stopped](err); ok {
		return stop.error
	}
	if errors.Is(err, fault.ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %s is cut off or damaged (%v): copy or write it again", fault.ErrFormat, p.path, err)
}

// guard makes a panic of the reading library an error: it trusts what files say about themselves.
func (p *parquetFile) guard(err *error) {
	if r := recover(); r != nil {
		*err = p.damaged(fmt.Errorf("%v", r))
	}
}

// fileReader reads a file that is opened anew for each reading. It fails once its context is done.
type fileReader struct {
	ctx  context.Context
	file *os.File
}

// stopped is the cause of a context that is done.
type stopped struct{ error }

func (s *stopped) Unwrap() error { return s.error }

func (f *fileReader) ReadAt(b []byte, at int64) (int, error) {
	if f.ctx.Err() != nil {
		return 0, &stopped{context.Cause(f.ctx)}
	}
	return f.file.ReadAt(b, at)
}

// listColumns finds the columns and how their values are written as texts.
func (p *parquetFile) listColumns() error {
	seen := map[string]bool{}
	for _, c := range p.file.Root().Columns() {
		x := parquetColumn{name: c.Name(), leaf: c.Index(), optional: c.Optional()}
		if seen[x.name] {
			return fmt.Errorf("%w: %s has two columns %q: rename one", fault.ErrFormat, p.path, short(x.name))
		}
		seen[x.name] = true
		if !c.Leaf() || c.Repeated() {
			x.why = "holds lists or objects: write their values as columns of their own, or leave it out with data.ignore"
		} else if x.text = textOf(c.Type()); x.text == nil {
			x.why = fmt.Sprintf("holds %v, which is no text, number or date: leave it out with data.ignore", c.Type())
		} else {
			x.width = widthOf(c.Type())
		}
		x.values = x.why == "" && hasValues(c.Type())
		p.columns = append(p.columns, x)
	}
	return nil
}

// parquetRows reads the rows of a file.
type parquetRows struct {
	*parquetFile
	used  []int // columns of the file that are read
	group int   // row groups begun
	left  int64 // rows of the group that are not read yet
	row   int64 // rows read
	from  []parquetCursor
	text  []byte
	ends  []span // by column
}

// parquetCursor reads the values of a column in a row group.
type parquetCursor struct {
	values parquet.ColumnChunkValueReader
	buf    []parquet.Value
	n, at  int
}

// valuesAhead is the values of a column that are read at a time.
const valuesAhead = 256

// rows begins to read the rows.
func (p *parquetFile) rows(ctx context.Context, used []bool) (rows, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	r := &parquetRows{parquetFile: p, ends: make([]span, len(p.columns))}
	for i, c := range p.columns {
		r.ends[i] = noSpan
		switch {
		case used != nil && !used[p.column(i)]:
		case c.why != "":
			return nil, errors.Join(fmt.Errorf("%w: %s: column %q %s", fault.ErrFormat, p.path, short(c.name), c.why), p.in.file.Close())
		default:
			r.used = append(r.used, i)
		}
	}
	r.from = make([]parquetCursor, len(r.used))
	return r, nil
}

// column is the table's column of a column of the file.
func (p *parquetFile) column(i int) int {
	if p.order == nil {
		return i
	}
	return p.order[i]
}

// Close closes the file.
func (r *parquetRows) Close() (err error) {
	defer r.guard(&err)
	for i := range r.from {
		if v := r.from[i].values; v != nil {
			err = errors.Join(err, v.Close())
		}
	}
	return errors.Join(err, r.in.file.Close())
}

// next reads a row.
func (r *parquetRows) next(row *Row) (err error) {
	defer r.guard(&err)
	for r.left == 0 {
		if r.group == len(r.file.RowGroups()) {
			return io.EOF
		}
		if err := r.begin(); err != nil {
			return err
		}
	}
	r.left--
	r.row++
	r.text = r.text[:0]
	for i, c := range r.used {
		v, err := r.from[i].next()
		if err == io.EOF {
			err = fmt.Errorf("column %q ends before row %d", short(r.columns[c].name), r.row)
		}
		if err != nil {
			return r.damaged(err)
		}
		r.ends[c] = noSpan
		if from := len(r.text); !v.IsNull() {
			r.text = r.columns[c].text(r.text, v)
			r.ends[c] = span{from, len(r.text), r.columns[c].values}
		}
		if len(r.text) > files.MostRow {
			return fmt.Errorf("%w: %s: row %d has more than %d MiB of text: is it the right file?", fault.ErrFormat, r.path, r.row, files.MostRow>>20)
		}
	}
	row.Fields, row.Values, row.number = resize(row.Fields, len(r.columns)), resize(row.Values, len(r.columns)), r.row
	for i, e := range r.ends {
		var field []byte
		if e.from >= 0 {
			field = r.text[e.from:e.to]
		}
		row.Fields[r.column(i)], row.Values[r.column(i)] = field, e.word
	}
	return nil
}

// begin begins with the next row group.
func (r *parquetRows) begin() error {
	g := r.file.RowGroups()[r.group]
	if err := r.checkGroup(r.group, r.used); err != nil {
		return r.damaged(err)
	}
	r.group++
	r.left = g.NumRows()
	chunks := g.ColumnChunks()
	for i, c := range r.used {
		x := &r.from[i]
		if x.values != nil {
			if err := x.values.Close(); err != nil {
				return r.damaged(err)
			}
		}
		x.values, x.n, x.at = parquet.NewColumnChunkValueReader(chunks[r.columns[c].leaf]), 0, 0
		if x.buf == nil {
			x.buf = make([]parquet.Value, valuesAhead)
		}
	}
	return nil
}

// next is the next value, valid until the next call.
func (c *parquetCursor) next() (parquet.Value, error) {
	for c.at == c.n {
		n, err := c.values.ReadValues(c.buf)
		if n == 0 && err != nil {
			return parquet.Value{}, err
		}
		c.n, c.at = n, 0
	}
	c.at++
	return c.buf[c.at-1], nil
}
