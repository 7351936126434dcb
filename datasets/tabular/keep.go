package tabular

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"os"
)

// kept is a copy of the rows in a file of our own. A table that is unpacked and divided into fields
// once need not be read again for each thing that is asked of it.
type kept struct {
	file    *os.File
	columns []int // of the table, that it has
	used    []bool
	whole   bool // it has all rows
	row     []byte
}

// Keep has the next Each write the columns that are used to a file, so that those after it read that
// file and none of the table's. The caller closes the file once it reads no more rows.
func (t *Table) Keep(file *os.File, used []bool) {
	t.kept = &kept{file: file, used: used}
	for column, yes := range used {
		if yes {
			t.kept.columns = append(t.kept.columns, column)
		}
	}
}

// has reports whether all columns that are used are kept.
func (k *kept) has(used []bool) bool {
	if k == nil || used == nil {
		return false
	}
	for column, yes := range used {
		if yes && !k.used[column] {
			return false
		}
	}
	return true
}

// write is Each that keeps the rows.
func (k *kept) write(ctx context.Context, t *Table, f func(row *Row) error) error {
	if _, err := k.file.Seek(0, io.SeekStart); err != nil {
		return &KeepError{err}
	}
	out := bufio.NewWriterSize(k.file, 1<<20)
	for i := range t.Files {
		err := t.eachOf(ctx, i, k.used, func(row *Row) error {
			k.encode(i, row)
			if _, err := out.Write(k.row); err != nil {
				return &KeepError{err}
			}
			return f(row)
		})
		if err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return &KeepError{err}
	}
	k.whole = true
	return nil
}

// encode writes a row: its length in bytes, its file and line, and for each column its length, text
// and place.
func (k *kept) encode(file int, row *Row) {
	const head = 4
	line := row.number
	if row.at != nil {
		line = int64(row.at[0].line)
	}
	b := binary.AppendUvarint(append(k.row[:0], make([]byte, head)...), uint64(file))
	b = binary.AppendUvarint(b, uint64(line))
	for _, column := range k.columns {
		field, kind := row.Fields[column], uint64(0)
		if field != nil {
			kind = 1
		}
		if row.Values != nil && row.Values[column] {
			kind |= 2
		}
		b = binary.AppendUvarint(b, uint64(len(field))<<2|kind)
		b = append(b, field...)
		if row.at != nil {
			b = binary.AppendVarint(b, int64(row.at[column].line)-line) // most have one line
			b = binary.AppendUvarint(b, uint64(row.at[column].column))
		}
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-head))
	k.row = b
}

// each hands over the rows that were kept.
func (k *kept) each(ctx context.Context, t *Table, f func(row *Row) error) error {
	if _, err := k.file.Seek(0, io.SeekStart); err != nil {
		return &KeepError{err}
	}
	in := bufio.NewReaderSize(k.file, 1<<20)
	row := Row{Fields: make([][]byte, t.Width)}
	if t.Format != CSV {
		row.Values = make([]bool, t.Width)
	}
	if t.Format != Parquet {
		row.at = make([]place, t.Width)
	}
	for n := 0; ; n++ {
		if n%rowsPerLook == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return &KeepError{err}
		}
		size := int(binary.LittleEndian.Uint32(head[:]))
		if cap(k.row) < size {
			k.row = make([]byte, size)
		}
		k.row = k.row[:size]
		if _, err := io.ReadFull(in, k.row); err != nil {
			return &KeepError{err}
		}
		k.decode(t, &row)
		if err := f(&row); err != nil {
			return err
		}
	}
}

// rowsPerLook is the rows that are read between two looks at whether to go on.
const rowsPerLook = 1 << 12

// decode reads what encode wrote after the length.
func (k *kept) decode(t *Table, row *Row) {
	b := k.row
	next := func() int {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return int(v)
	}
	signed := func() int {
		v, n := binary.Varint(b)
		b = b[n:]
		return int(v)
	}
	row.File, row.number = t.Files[next()], int64(next())
	for _, column := range k.columns {
		kind := next()
		size := kind >> 2
		row.Fields[column] = nil
		if kind&1 > 0 {
			row.Fields[column] = b[:size:size]
		}
		b = b[size:]
		if row.Values != nil {
			row.Values[column] = kind&2 > 0
		}
		if row.at != nil {
			row.at[column] = place{line: int(row.number) + signed(), column: next()}
		}
	}
}

// KeepError is an error of the file that rows are kept in.
type KeepError struct{ error }

func (e *KeepError) Unwrap() error { return e.error }
