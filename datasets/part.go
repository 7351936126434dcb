package datasets

import (
	"fmt"
	"slices"

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
	seed    uint64  // of the orders, and of samples that vary
	of      int     // rows of the part that this is the first batch of; 0: of none
	varies  bool    // samples that a function writes, or that are augmented, may differ from epoch to epoch
	blocks  *blocks // of a table beside memory, instead of split; nil: it is in memory

	soft *Field // the target with a share of each class; nil: it is that of the table

	// The rest is of samples with different lengths.
	ordered bool     // batches keep the part's order
	batches *batches // nil: samples are read one by one, padded to the longest
	only    []int32  // the table's rows that the part has; nil: split has them
	samples int      // in an epoch; valid with batches, whose empty samples are in count
}

// batches are the samples of a part in batches of which each has one bucket. A batch that
// lacks samples is filled up with empty ones, so all have the same size.
type batches struct {
	size    int
	buckets []int     // positions, of the buckets that some batch has
	fields  [][]Field // by bucket
	sorted  []int32   // rows of the part by bucket, and otherwise in its order; nil: batches keep that order
	first   []int     // by bucket: its first in sorted, and the end of the last
	before  []int     // by bucket: the batches of the buckets before it, and of all
	orders  []string  // by bucket: the name of its order, which other buckets do not change
}

// Len is the number of samples in an epoch, those included that only fill batches up.
func (p *Part) Len() int { return p.count }

// Samples is the number of samples in an epoch; in batches by buckets, without the empty
// ones.
func (p *Part) Samples() int {
	if p.batches == nil {
		return p.count
	}
	return p.samples
}

// Fields lists the tensors of a sample in the order of Read's destinations: the
// inputs, then the target if there is one. Of samples with different lengths they are
// those of the largest of Buckets.
func (p *Part) Fields() []Field {
	if p.batches == nil {
		fields := make([]Field, len(p.table.columns))
		for i, c := range p.table.columns {
			fields[i] = c.field
		}
		if p.soft != nil {
			fields[1] = *p.soft
		}
		return fields
	}
	return p.Shapes(len(p.batches.fields) - 1)
}

// Shapes is Fields in a batch of a bucket, an index in Buckets.
func (p *Part) Shapes(bucket int) []Field {
	if p.batches == nil {
		return p.Fields()
	}
	return slices.Clone(p.batches.fields[bucket])
}

// field is tensor i of a sample; of samples with different lengths, of the longest.
func (p *Part) field(i int) *Field {
	if b := p.batches; b != nil {
		return &b.fields[len(b.fields)-1][i]
	}
	if i == 1 && p.soft != nil {
		return p.soft
	}
	return &p.table.columns[i].field
}

// Next is the cursor after n samples were read at c. After the last sample it is
// the start of the next epoch.
func (p *Part) Next(c Cursor, n int) Cursor {
	if c.Index += n; c.Index >= p.count {
		return Cursor{Epoch: c.Epoch + 1}
	}
	return c
}

// InOrder is the part without shuffling, also by buckets: sample i is the i-th of the part.
func (p *Part) InOrder() *Part {
	q := *p
	q.shuffle, q.ordered, q.batches, q.count = false, true, nil, p.Samples()
	return &q
}

// AsInputs is the part for evaluation or prediction: no sample of it varies by epoch.
func (p *Part) AsInputs() *Part {
	q := *p
	q.varies, q.soft = false, nil
	return &q
}

// epochOrder is the order of the samples of an epoch.
type epochOrder struct {
	all    rng.Permutation // valid if the part shuffles
	blocks blockOrder      // instead, of a part with blocks
}

// epochOrder is the order of an epoch.
func (p *Part) epochOrder(epoch int) (o epochOrder) {
	if !p.shuffle {
		return o
	}
	count := p.count
	if p.of > 0 {
		epoch, count = 0, p.of
	}
	if p.blocks != nil {
		o.blocks = p.blocks.epoch(func(purpose string) rng.Key { return p.orderKey(purpose, epoch) })
	} else {
		o.all = rng.NewPermutation(count, p.orderKey("shuffle", epoch))
	}
	return o
}

// orderKey is the key of an order of an epoch.
func (p *Part) orderKey(purpose string, epoch int) rng.Key {
	return keyed(rng.Named(p.seed, purpose), epoch)
}

// row is the table's row for sample i of an epoch.
func (p *Part) row(i int, order epochOrder) int {
	switch {
	case p.shuffle && p.blocks != nil:
		i = order.blocks.row(i)
	case p.shuffle:
		i = order.all.At(i)
	}
	return p.splitRow(i)
}

// splitRow is the table's row for the part's sample i, before shuffling.
func (p *Part) splitRow(i int) int {
	if p.only != nil {
		return int(p.only[i])
	}
	if p.blocks != nil {
		return p.blocks.row(i)
	}
	if i += p.first; p.isSplit {
		i = p.split.At(i)
	}
	return i
}
