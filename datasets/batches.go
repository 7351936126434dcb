package datasets

import (
	"github.com/berth-ml/berth/engine/rng"
)

// InBatches is the part for reading batches of n samples, if its samples have different
// lengths: see [Part.Bucket]. Len is then a multiple of n. Other parts stay as they are.
func (p *Part) InBatches(n int) *Part {
	s := p.table.sequences
	if s == nil || p.batches != nil && p.batches.size == n {
		return p
	}
	q := *p
	b := &batches{size: n}
	q.batches, q.samples = b, p.Samples()
	if q.ordered {
		b.buckets = q.inOrder(n)
		q.count = (q.samples + n - 1) / n * n
	} else {
		q.count = q.byBucket(n)
	}
	for _, positions := range b.buckets {
		b.fields = append(b.fields, s.fields(positions))
	}
	return &q
}

// byBucket sorts the part's rows by bucket, for batches of n. It gives the number of
// samples, with those that fill batches up.
func (p *Part) byBucket(n int) int {
	b, s := p.batches, p.table.sequences
	rows := make([][]int32, len(s.buckets))
	for i := range p.samples {
		row := p.splitRow(i)
		k := bucketOf(s.buckets, s.of.length(row))
		rows[k] = append(rows[k], int32(row))
	}
	batches := 0
	b.before = []int{0}
	for k, rows := range rows {
		if len(rows) == 0 {
			continue
		}
		b.buckets, b.orders = append(b.buckets, s.buckets[k]), append(b.orders, bucketNames[k])
		b.first, b.sorted = append(b.first, len(b.sorted)), append(b.sorted, rows...)
		batches += (len(rows) + n - 1) / n
		b.before = append(b.before, batches)
	}
	b.first = append(b.first, len(b.sorted))
	return batches * n
}

// inOrder is the buckets of batches of n that keep the part's order: of samples that are
// not known yet, all.
func (p *Part) inOrder(n int) (used []int) {
	s := p.table.sequences
	if s.later {
		return s.buckets
	}
	has := make([]bool, len(s.buckets))
	for i := 0; i < p.samples; i += n {
		has[bucketOf(s.buckets, p.longest(i, n))] = true
	}
	for k, positions := range s.buckets {
		if has[k] {
			used = append(used, positions)
		}
	}
	return used
}

// longest is the most positions of the n samples from i on, in the part's order.
func (p *Part) longest(i, n int) (most int) {
	for j := i; j < min(i+n, p.samples); j++ {
		most = max(most, p.Length(j))
	}
	return most
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

// firstBatch is FirstBatch of samples with different lengths.
func (p *Part) firstBatch(n int) *Part {
	all, q := p.InBatches(n), *p
	x := all.batchAt(Cursor{})
	q.only = nil // the part's own rows, which a divided one lists
	for j := range n {
		if row := all.rowOf(x, j); row >= 0 {
			q.only = append(q.only, int32(row))
		}
	}
	q.count, q.shuffle, q.batches, q.of = len(q.only), false, nil, p.Samples()
	return q.InBatches(n)
}

// Buckets are the positions to which samples are padded, from the fewest; nil if all
// samples have one shape. In batches, they are those that some batch has.
func (p *Part) Buckets() []int {
	switch {
	case p.table.sequences == nil:
		return nil
	case p.batches == nil:
		return p.table.sequences.buckets
	}
	return p.batches.buckets
}

// Seen is the number of samples of a part that are read before a cursor, from the first
// epoch on, and of their positions if they have different lengths.
func (p *Part) Seen(c Cursor) (samples, positions int64) {
	if p.batches == nil {
		return int64(c.Epoch)*int64(p.count) + int64(c.Index), 0
	}
	samples, positions = int64(c.Epoch)*int64(p.samples), int64(c.Epoch)*p.Positions()
	for at := (Cursor{Epoch: c.Epoch}); at.Index < c.Index; at.Index += p.batches.size {
		n, all := p.Counted(at)
		samples, positions = samples+n, positions+all
	}
	return samples, positions
}

// Counted is the number of samples and positions of the batch at a cursor that are no
// padding. The part has buckets.
func (p *Part) Counted(c Cursor) (samples, positions int64) {
	x := p.batchAt(c)
	for j := range p.batches.size {
		if row := p.rowOf(x, j); row >= 0 {
			samples, positions = samples+1, positions+int64(p.table.sequences.of.length(row))
		}
	}
	return samples, positions
}

// Targets is the number of targets of all samples that count, where each position has one.
func (p *Part) Targets() (n int64) {
	for i := range p.Samples() {
		n += int64(p.table.sequences.counted(p.splitRow(i)))
	}
	return n
}

// TargetsAt is Targets of the batch at a cursor. The part has buckets.
func (p *Part) TargetsAt(c Cursor) (n int64) {
	x := p.batchAt(c)
	for j := range p.batches.size {
		if row := p.rowOf(x, j); row >= 0 {
			n += int64(p.table.sequences.counted(row))
		}
	}
	return n
}

// InBuckets is the number of samples of each bucket of the data, those included that no
// batch has.
func (p *Part) InBuckets() []int {
	s := p.table.sequences
	if s == nil {
		return nil
	}
	n := make([]int, len(s.buckets))
	for i := range p.Samples() {
		n[bucketOf(s.buckets, p.Length(i))]++
	}
	return n
}

// Bucket is the index in Buckets of the bucket that the batch at a cursor has. Without
// InBatches it is that of the longest samples.
func (p *Part) Bucket(c Cursor) int {
	s := p.table.sequences
	if s == nil {
		return 0
	}
	if p.batches == nil {
		return len(s.buckets) - 1
	}
	return p.batchAt(c).bucket
}

// Length is the number of positions of sample i, in order, that are no padding.
func (p *Part) Length(i int) int {
	if i >= p.Samples() {
		return 0
	}
	return p.table.sequences.of.length(p.splitRow(i))
}

// Positions is the number of positions of all samples that are no padding.
func (p *Part) Positions() (n int64) {
	for i := range p.Samples() {
		n += int64(p.table.sequences.of.length(p.splitRow(i)))
	}
	return n
}

// batchOf is a batch: its bucket, and the rows of it.
type batchOf struct {
	bucket int
	at     int             // of its first sample in the bucket, or in the part if batches keep its order
	count  int             // samples of the bucket, or of the part
	order  rng.Permutation // of the bucket; valid if the part shuffles
}

// batchAt finds the batch at a cursor. Each epoch has an order of batches, and for each
// bucket an order of samples: they follow from the seed and the epoch alone.
func (p *Part) batchAt(c Cursor) batchOf {
	b := p.batches
	k := c.Index / b.size
	if b.sorted == nil {
		at := k * b.size
		return batchOf{bucket: bucketOf(b.buckets, p.longest(at, b.size)), at: at, count: p.samples}
	}
	if p.shuffle {
		k = rng.NewPermutation(b.before[len(b.before)-1], p.orderKey("batches", c.Epoch)).At(k)
	}
	bucket := 0
	for k >= b.before[bucket+1] {
		bucket++
	}
	x := batchOf{bucket: bucket, at: (k - b.before[bucket]) * b.size, count: b.first[bucket+1] - b.first[bucket]}
	if p.shuffle {
		x.order = rng.NewPermutation(x.count, p.orderKey(b.orders[bucket], c.Epoch))
	}
	return x
}

// rowOf is the table's row of a batch's sample; -1 for an empty one.
func (p *Part) rowOf(x batchOf, j int) int {
	i := x.at + j
	switch {
	case i >= x.count:
		return -1
	case p.batches.sorted == nil:
		return p.splitRow(i)
	case p.shuffle:
		i = x.order.At(i)
	}
	return int(p.batches.sorted[p.batches.first[x.bucket]+i])
}

// SampleOf is the number, in the data, of sample j of a batch that was read at c; -1 if
// it only fills the batch up.
func (p *Part) SampleOf(c Cursor, j int) int {
	if p.batches != nil {
		return p.rowOf(p.batchAt(c), j)
	}
	return p.row(c.Index+j, p.epochOrder(c.Epoch))
}

// Empty is the number of the n samples at a cursor that only fill the batch up.
func (p *Part) Empty(c Cursor, n int) int {
	if p.batches == nil {
		return 0
	}
	x := p.batchAt(c)
	return max(0, x.at+n-x.count)
}
