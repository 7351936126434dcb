package datasets

import (
	"fmt"
	"io"

	"github.com/berth-ml/berth/engine/rng"
)

// Cursor is a position in the endless sequence of samples that training reads.
// It is the whole state of reading.
type Cursor struct {
	Epoch int // from 0
	Index int // samples of the epoch already read
}

// String is "epoch 2, sample 128".
func (c Cursor) String() string { return fmt.Sprintf("epoch %d, sample %d", c.Epoch, c.Index) }

// Part holds the training or the validation samples of a dataset. A training
// part has another order in each epoch if it shuffles. A Part never changes: it
// is safe for concurrent use. Read and Next neither allocate nor block, unless a
// function of the program's own writes the samples and does.
type Part struct {
	table   *table
	split   rng.Permutation // of the table's rows; valid if isSplit
	isSplit bool
	first   int // position in the split of the part's first row
	count   int // rows of the part
	shuffle bool
	seed    uint64 // of the orders, and of samples that vary
	of      int    // rows of the part that this is the first batch of; 0: of none
	varies  bool   // samples that a function writes may differ from epoch to epoch

	// The rest is of samples with different lengths.
	ordered bool     // batches keep the part's order
	batches *batches // nil: samples are read one by one, padded to the longest
	only    []int32  // the table's rows that the part has; nil: split has them
	samples int      // in an epoch; valid with batches, whose empty samples are in count
}

// Len is the number of samples in an epoch, those included that only fill batches up.
func (p *Part) Len() int { return p.count }

// Fields lists the tensors of a sample in the order of Read's destinations: the
// inputs, then the target if there is one. Of samples with different lengths they are
// those of the largest of Buckets.
func (p *Part) Fields() []Field {
	if p.batches == nil {
		fields := make([]Field, len(p.table.columns))
		for i, c := range p.table.columns {
			fields[i] = c.field
		}
		return fields
	}
	return p.Shapes(len(p.batches.fields) - 1)
}

// field is tensor i of a sample; of samples with different lengths, of the longest.
func (p *Part) field(i int) *Field {
	if b := p.batches; b != nil {
		return &b.fields[len(b.fields)-1][i]
	}
	return &p.table.columns[i].field
}

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
func (p *Part) Read(c Cursor, n int, dst [][]byte) (int, error) {
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
	if p.table.sequences != nil {
		return p.readSequences(c, n, dst)
	}
	if p.table.filled != nil {
		if err := p.fillWith(c, n, dst); err != nil {
			return 0, err
		}
		return n, nil
	}
	if m := p.table.mapping; m != nil {
		err := m.Guard(func() error {
			p.fill(c, n, dst)
			return nil
		})
		return n, err
	}
	p.fill(c, n, dst)
	return n, nil
}

// fill copies the n samples from c on to dst.
func (p *Part) fill(c Cursor, n int, dst [][]byte) {
	order := p.epochOrder(c.Epoch)
	for j := range n {
		row := p.row(c.Index+j, order)
		for i := range p.table.columns {
			col := &p.table.columns[i]
			size := int(col.field.Meta.Bytes())
			col.fill(row, dst[i][j*size:(j+1)*size])
		}
	}
}

// FirstBatch is the part with the first n samples of epoch 0 alone, or with all where
// there are fewer. All its epochs have the same order. Of samples with different lengths
// it is the first batch of one bucket.
func (p *Part) FirstBatch(n int) *Part {
	if p.table.sequences != nil {
		return p.firstBatch(n)
	}
	q := *p
	q.count, q.of = min(n, p.count), p.count
	return &q
}

// Next is the cursor after n samples were read at c. After the last sample it is
// the start of the next epoch.
func (p *Part) Next(c Cursor, n int) Cursor {
	if c.Index += n; c.Index >= p.count {
		return Cursor{Epoch: c.Epoch + 1}
	}
	return c
}

// epochOrder is the order of an epoch; valid if p shuffles.
func (p *Part) epochOrder(epoch int) rng.Permutation {
	if !p.shuffle {
		return rng.Permutation{}
	}
	count := p.count
	if p.of > 0 {
		epoch, count = 0, p.of
	}
	return rng.NewPermutation(count, p.orderKey("shuffle", epoch))
}

// row is the table's row for sample i of an epoch.
func (p *Part) row(i int, order rng.Permutation) int {
	if p.shuffle {
		i = order.At(i)
	}
	return p.splitRow(i)
}

// SampleOf is the number, in the data, of sample j of a batch that was read at c; -1 if
// it only fills the batch up.
func (p *Part) SampleOf(c Cursor, j int) int {
	if p.batches != nil {
		return p.rowOf(p.batchAt(c), j)
	}
	return p.row(c.Index+j, p.epochOrder(c.Epoch))
}

// splitRow is the table's row for the part's sample i, before shuffling.
func (p *Part) splitRow(i int) int {
	if p.only != nil {
		return int(p.only[i])
	}
	if i += p.first; p.isSplit {
		i = p.split.At(i)
	}
	return i
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
