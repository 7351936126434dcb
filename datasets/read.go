package datasets

import (
	"fmt"
	"io"

	"github.com/berth-ml/berth/engine/rng"
)

// Alloc makes destinations for n samples.
func (p *Part) Alloc(n int) [][]byte {
	dst := make([][]byte, len(p.table.columns))
	for i := range dst {
		dst[i] = make([]byte, n*int(p.field(i).Meta.Bytes()))
	}
	return dst
}

// Read fills dst with up to n samples of epoch c.Epoch, from sample c.Index on,
// and returns how many. It returns fewer than n only before the epoch's end, and
// 0 with io.EOF at the end. dst has one slice for each field, aligned for its
// elements and at least n samples long. Reading costs the same from any cursor.
func (p *Part) Read(c Cursor, n int, dst [][]byte) (int, error) { return p.ReadRows(c, n, nil, dst) }

// Rows are some of the samples of a batch, From the first of them to before To.
type Rows struct{ From, To int }

// ReadRows is Read of some of the samples, in their places: dst keeps the rest of its contents. Nil rows are all.
func (p *Part) ReadRows(c Cursor, n int, rows []Rows, dst [][]byte) (int, error) {
	if err := p.checkCursor(c); err != nil {
		return 0, err
	}
	if err := p.checkRoom(n, dst); err != nil {
		return 0, err
	}
	if c.Index == p.count {
		return 0, io.EOF
	}
	n = min(n, p.count-c.Index)
	if rows == nil {
		all := [1]Rows{{0, n}}
		return n, p.readRows(c, n, all[:], dst)
	}
	for _, r := range rows {
		if r.From < 0 || r.To > n || r.From > r.To {
			return 0, fmt.Errorf("%w: rows %d to %d of %d samples", ErrSpec, r.From, r.To, n)
		}
	}
	return n, p.readRows(c, n, rows, dst)
}

// readRows reads some of n samples.
func (p *Part) readRows(c Cursor, n int, rows []Rows, dst [][]byte) error {
	if p.table.sequences != nil {
		return p.readSequences(c, n, rows, dst)
	}
	if p.table.filled != nil {
		return p.fillWith(c, rows, dst)
	}
	return p.table.guard(func() error {
		if p.varies && p.table.augment != nil {
			p.fillAugmented(c, n, rows, dst)
		} else {
			p.fill(c, rows, dst)
		}
		return nil
	})
}

// checkCursor checks that c is a position in this part.
func (p *Part) checkCursor(c Cursor) error {
	if c.Epoch < 0 || c.Index < 0 || c.Index > p.count {
		return fmt.Errorf("%w: %v is outside a part of %d samples: use a cursor of this data", ErrSpec, c, p.count)
	}
	return nil
}

// checkRoom checks that dst has room for n samples.
func (p *Part) checkRoom(n int, dst [][]byte) error {
	if n < 1 || len(dst) != len(p.table.columns) {
		return fmt.Errorf("%w: %d samples into %d slices: read at least 1 sample, into a slice for each of the %d fields", ErrDst, n, len(dst), len(p.table.columns))
	}
	for i := range dst {
		f := p.field(i)
		if need := n * int(f.Meta.Bytes()); len(dst[i]) < need {
			return fmt.Errorf("%w: the slice of field %q has %d bytes, but %d samples of %v need %d",
				ErrDst, f.Name, len(dst[i]), n, f.Meta, need)
		}
	}
	return nil
}

// fill copies rows of the samples from c on to dst.
func (p *Part) fill(c Cursor, rows []Rows, dst [][]byte) {
	order := p.epochOrder(c.Epoch)
	for _, r := range rows {
		for j := r.From; j < r.To; j++ {
			row := p.row(c.Index+j, order)
			for i := range p.table.columns {
				col := &p.table.columns[i]
				size := int(col.field.Meta.Bytes())
				col.fill(row, dst[i][j*size:(j+1)*size])
			}
		}
	}
}

// fillWith has the function of the part's samples write rows of the samples from c on to dst.
func (p *Part) fillWith(c Cursor, rows []Rows, dst [][]byte) (err error) {
	var x Sample
	defer p.table.filled.guard(&x, &err)
	order, key := p.epochOrder(c.Epoch), p.fillKey()
	for _, r := range rows {
		for j := r.From; j < r.To; j++ {
			x = p.sample(c, p.row(c.Index+j, order), key)
			input, target := p.table.place(dst, 0, j), []byte(nil)
			if len(dst) > 1 {
				target = p.table.place(dst, 1, j)
			}
			if err := p.table.filled.write(x, input, target, p.table.unit); err != nil {
				return p.table.filled.failed(x, err)
			}
		}
	}
	return nil
}

// place is the memory of column i of sample j.
func (t *table) place(dst [][]byte, i, j int) []byte {
	n := t.columns[i].size
	return dst[i][j*n : (j+1)*n : (j+1)*n]
}

// fillKey is the key of the seeds of samples.
func (p *Part) fillKey() rng.Key { return rng.Named(p.seed, "fill") }

// sample names a row of the table, as it is read at a cursor.
func (p *Part) sample(c Cursor, row int, key rng.Key) Sample {
	s := Sample{Index: row, Epoch: -1}
	if p.varies {
		s.Epoch = c.Epoch
	}
	if p.varies && p.of > 0 {
		s.Epoch = 0
	}
	bits := key.At(uint64(row), uint32(s.Epoch))
	s.Seed = uint64(bits[0])<<32 | uint64(bits[1])
	return s
}

// readSequences is readRows for samples of different lengths, which have the positions of
// their batch's bucket.
func (p *Part) readSequences(c Cursor, n int, rows []Rows, dst [][]byte) error {
	if p.batches == nil {
		order := p.epochOrder(c.Epoch)
		return p.writeSequences(c, rows, p.table.sequences.longest, dst, func(j int) int { return p.row(c.Index+j, order) })
	}
	if n != p.batches.size || c.Index%n != 0 {
		return fmt.Errorf("%w: %d samples from %v on, of a part in batches of %d: read whole batches", ErrSpec, n, c, p.batches.size)
	}
	x := p.batchAt(c)
	return p.writeSequences(c, rows, p.batches.fields[x.bucket], dst, func(j int) int { return p.rowOf(x, j) })
}

// writeSequences writes some of the samples from c on. row is the table's row of each; -1 is an empty one.
func (p *Part) writeSequences(c Cursor, rows []Rows, fields []Field, dst [][]byte, row func(j int) int) (err error) {
	var x Sample
	defer p.table.filled.guard(&x, &err)
	key := p.fillKey()
	for _, r := range rows {
		for j := r.From; j < r.To; j++ {
			x = p.sample(c, row(j), key)
			if err := p.table.sequences.write(x, j, fields, dst); err != nil {
				return p.table.filled.failed(x, err)
			}
		}
	}
	return nil
}
