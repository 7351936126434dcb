package tabular

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/datasets/files"
)

// headCount is the number of rows that show whether the first names the columns.
const headCount = 1000

// openCSV finds the columns of CSV: those of the first file, which the others must have, too.
func (t *Table) openCSV(ctx context.Context) error {
	t.orders = make([][]int, len(t.Files))
	any := false
	for i := range t.Files {
		head, other, err := t.head(ctx, i, headCount+1)
		if err != nil {
			return err
		}
		named := t.options.Named != nil && t.options.Named(head)
		if i > 0 {
			err = t.fit(i, head[0], named)
		} else if t.Width, t.Other = len(head[0]), other; named {
			t.Names = head[0]
		}
		if err != nil {
			return err
		}
		any = any || t.Names == nil || len(head) > 1
	}
	if !any {
		return t.empty()
	}
	return nil
}

// fit finds the columns of the table in a further file, which has a header if the first file has
// one. named says that its first row looks like one.
func (t *Table) fit(file int, first []string, named bool) (err error) {
	path := t.Files[file]
	const advise = "give each file the same header, or none (data.header: false takes the first row of each as a sample)"
	switch {
	case t.Names != nil && !named && !slices.Contains(t.Names, first[0]):
		return fault.Option("header", fmt.Errorf("%w: %s begins with a header, and %s does not: the first field of its first row is %q, which is no column of the header: %s",
			fault.ErrFormat, t.Files[0], path, short(first[0]), advise))
	case t.Names != nil:
		t.orders[file], err = t.match(path, first)
		return err
	case len(first) != t.Width:
		return fmt.Errorf("%w: %s has %d columns, and %s has %d: give files of the same columns", fault.ErrFormat, t.Files[0], t.Width, path, len(first))
	case named:
		return fault.Option("header", fmt.Errorf("%w: %s has no header, and %s begins with one, whose first column is %q: %s", fault.ErrFormat, t.Files[0], path, short(first[0]), advise))
	}
	return nil
}

// head reads the first rows of a file, at most so many. other is another delimiter that they look separated by.
func (t *Table) head(ctx context.Context, file, most int) (head [][]string, other string, err error) {
	s, err := files.Open(ctx, t.Files[file])
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := newCSVRows(s, t.Files[file], t.options.Comma, t.options.Skip)
	if err != nil {
		return nil, "", err
	}
	var row Row
	for bytes := 0; len(head) < most && bytes < files.MostRow; {
		err := r.next(&row)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, "", err
		}
		head = append(head, trimmed(row.Fields))
		for _, f := range row.Fields {
			bytes += len(f) + 16
		}
	}
	if len(head) == 0 {
		return nil, "", fmt.Errorf("%w: %s is empty: put a row in it for each sample", fault.ErrTooFew, t.Files[file])
	}
	return head, r.otherComma(), nil
}

// trimmed is a row's fields as strings.
func trimmed(fields [][]byte) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = string(bytes.TrimSpace(f))
	}
	return out
}

// csvFile reads the rows of one of several files, in the order of the table's columns.
type csvFile struct {
	*csvRows
	in    *files.Stream
	order []int
	row   Row // as the file has it
}

// csvRows begins to read a file below its header.
func (t *Table) csvRows(in *files.Stream, file int) (rows, error) {
	r, err := newCSVRows(in, t.Files[file], t.options.Comma, t.options.Skip)
	if err != nil {
		return nil, err
	}
	r.width = t.Width
	x := &csvFile{csvRows: r, in: in, order: t.orders[file]}
	if t.Names == nil {
		return x, nil
	}
	if err := r.next(&x.row); err == io.EOF {
		return nil, changed(t.Files[file])
	} else if err != nil {
		return nil, err
	}
	return x, nil
}

func (x *csvFile) Close() error { return x.in.Close() }

// next reads a row.
func (x *csvFile) next(row *Row) error {
	if x.order == nil {
		return x.csvRows.next(row)
	}
	if err := x.csvRows.next(&x.row); err != nil {
		return err
	}
	if row.Fields == nil {
		row.Fields, row.at = make([][]byte, x.width), make([]place, x.width)
	}
	for i, j := range x.order {
		row.Fields[j], row.at[j] = x.row.Fields[i], x.row.at[i]
	}
	return nil
}
