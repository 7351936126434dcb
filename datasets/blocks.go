package datasets

import (
	"fmt"

	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/internal/units"
)

// blocks divide the rows of a table that is larger than memory. A part takes the same share of
// each block, and reads block after block, so that the rows of one block are near to each other in
// the file. Like a permutation it holds no table: any position costs the same.
type blocks struct {
	size  int  // rows of a block
	rows  int  // of the table; the last block may have fewer than the others
	full  int  // rows of the part in a block
	last  int  // rows of the part in the last block, if that is smaller; 0: there is none
	first int  // position, among the rows of a block, of the part's first
	tail  int  // first, of the last block
	split bool // the part's rows of a block are drawn
	key   rng.Key
}

// blockRows is the rows of a block of so many bytes: those of the samples, with four bytes for each
// column of the table that is read.
func blockRows(bytes int64, columns int) int { return int(max(1, bytes/4/int64(max(1, columns)))) }

// splitBlocks divides each block of the rows of t into a training and a validation part.
func splitBlocks(t *table, s Spec, fraction float64, size int) (train, val *Part, err error) {
	size = min(size, t.rows)
	n, rest := trainCount(size, fraction), t.rows%size
	left := trainCount(rest, fraction)
	b := &blocks{size: size, rows: t.rows, full: n, last: left, split: fraction < 1, key: rng.Named(s.Seed, "split")}
	blocksOf := t.rows / size
	if n == 0 || fraction < 1 && n == size {
		return nil, nil, blame("split", fmt.Errorf("%w: split %v leaves one part of a block of %s empty: raise data.memory, add samples, or use split 1", ErrTooFew, fraction, units.Count(size, "row")))
	}
	train = &Part{table: t, count: blocksOf*n + left, blocks: b}
	if fraction < 1 {
		v := *b
		v.full, v.last, v.first, v.tail = size-n, rest-left, n, left
		val = &Part{table: t, count: t.rows - train.count, blocks: &v}
	}
	shuffle(train, s)
	return train, val, nil
}

// blocksOf are blocks of a part that has some of the rows of a table, in the order of the file: as
// many blocks as the table has, so a block lies within about as many bytes.
func blocksOf(count, rows, size int) *blocks {
	n := max(1, int(int64(min(size, rows))*int64(count)/int64(rows)))
	return &blocks{size: n, rows: count, full: n, last: count % n}
}

// place is the block of the part's row i, and its number among the part's rows of that block.
func (b *blocks) place(i int) (block, j int) {
	all := b.rows / b.size
	if i < all*b.full {
		return i / b.full, i % b.full
	}
	return all, i - all*b.full
}

// row is the table's row for the part's row i.
func (b *blocks) row(i int) int {
	block, j := b.place(i)
	n, first := b.size, b.first
	if (block+1)*b.size > b.rows {
		n, first = b.rows%b.size, b.tail
	}
	if j += first; b.split {
		j = rng.NewPermutation(n, keyed(b.key, block)).At(j)
	}
	return block*b.size + j
}

// keyed is a key for each number.
func keyed(k rng.Key, n int) rng.Key {
	return rng.NewKey(uint64(k.Hi)<<32|uint64(k.Lo), uint64(n))
}

// blockOrder is the order of an epoch: of blocks, and of the rows within each.
type blockOrder struct {
	of    *blocks
	order rng.Permutation // of the blocks but for a smaller last one
	at    int             // where the smaller last block comes among the others
	rows  rng.Key         // of the orders within blocks
}

// epoch is the order of an epoch. keyOf gives its keys by their purpose.
func (b *blocks) epoch(keyOf func(purpose string) rng.Key) blockOrder {
	all := b.rows / b.size
	o := blockOrder{of: b, order: rng.NewPermutation(all, keyOf("blocks")), rows: keyOf("shuffle")}
	o.at = rng.NewPermutation(all+1, keyOf("last block")).At(0)
	return o
}

// row is the part's row for sample i of the epoch.
func (o *blockOrder) row(i int) int {
	b := o.of
	before := o.at * b.full
	var block, j, n int
	switch {
	case i >= before && i < before+b.last:
		block, j, n = b.rows/b.size, i-before, b.last
	default:
		if i >= before {
			i -= b.last
		}
		block, j, n = o.order.At(i/b.full), i%b.full, b.full
	}
	return block*b.full + rng.NewPermutation(n, keyed(o.rows, block)).At(j)
}
