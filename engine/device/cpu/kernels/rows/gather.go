package rows

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var gatherKernels = work.Table{
	"gather(f32,i32)->f32":      newGather,
	"gather(bf16,i32)->f32":     newGather,
	"gather(i8b,i32)->f32":      newGather,
	"scatter_add(i32,f32)->f32": newScatterAdd,
}

// lookup is rows of a table by id.
type lookup struct {
	n, d, vocabulary int // ids, width, rows of the table
	ids              []int32
}

// gather copies rows of the table.
type gather struct {
	lookup
	y     []float32
	table []byte
	pitch int                         // bytes of a row of the table
	copy  func(y []float32, x []byte) // a row of the table to y
	then  work.Epilogue
}

func newGather(n *graph.Node, on work.Target) (work.Kernel, error) {
	t := work.In(n, 0).Shape
	k := &gather{lookup: lookup{n: work.In(n, 1).Elems(), d: t[1], vocabulary: t[0]}}
	row := shape.Meta{DType: work.In(n, 0).DType, Shape: t[1:]}
	k.pitch = int(row.Bytes())
	switch vec := on.ISA.Vec(); row.DType {
	case shape.BFloat16:
		k.copy = func(y []float32, x []byte) { vec.Widen(y, shape.View[uint16](x)) }
	case shape.Int8Block:
		k.copy = vec.WidenInt8
	default:
		k.copy = func(y []float32, x []byte) { copy(y, shape.View[float32](x)) }
	}
	return k, nil
}

// Then implements [work.Follower].
func (k *gather) Then(e work.Epilogue) { k.then = e }

func (k *gather) ScratchBytes() int64 { return 0 }

func (k *gather) Run(p work.Pool, a *work.Args) error {
	k.ids = work.Ints(a.In[1], k.n)
	if err := ops.CheckIDs(k.ids, k.vocabulary); err != nil {
		return err
	}
	k.y, k.table = work.Floats(a.Out[0], k.n*k.d), a.In[0]
	work.Do(p, work.CeilDiv(k.n, work.RowGrain(k.d)), k)
	return nil
}

func (k *gather) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.d), k.n)
	for row := lo; row < hi; row++ {
		from := int(k.ids[row]) * k.pitch
		k.copy(k.y[row*k.d:(row+1)*k.d], k.table[from:from+k.pitch])
	}
	if k.then != nil {
		k.then.After(lo, hi, 0, k.d)
	}
}

// scatterAdd adds rows by id. Each chunk of the output takes the rows with its ids, in
// their order.
type scatterAdd struct {
	lookup
	add   func(y, a, b []float32)
	y, dy []float32
	ends  []int32 // where in order each chunk's ids end
	order []int32 // positions of ids, by chunk
	then  work.Epilogue
}

func newScatterAdd(n *graph.Node, on work.Target) (work.Kernel, error) {
	t := work.Out(n, 0).Shape
	return &scatterAdd{add: on.ISA.Vec().Add, lookup: lookup{n: work.In(n, 0).Elems(), d: t[1], vocabulary: t[0]}}, nil
}

// Then implements [work.Follower].
func (k *scatterAdd) Then(e work.Epilogue) { k.then = e }

func (k *scatterAdd) chunks() int { return work.CeilDiv(k.vocabulary, work.RowGrain(k.d)) }

func (k *scatterAdd) ScratchBytes() int64 { return int64(k.chunks()+k.n) * 4 }

func (k *scatterAdd) Run(p work.Pool, a *work.Args) error {
	k.ids = work.Ints(a.In[0], k.n)
	if err := ops.CheckIDs(k.ids, k.vocabulary); err != nil {
		return err
	}
	k.y, k.dy = work.Floats(a.Out[0], k.vocabulary*k.d), work.Floats(a.In[1], k.n*k.d)
	k.sort(work.Ints(a.Scratch, k.chunks()+k.n))
	work.Do(p, k.chunks(), k)
	return nil
}

// sort orders the ids by chunk, by counting.
func (k *scatterAdd) sort(scratch []int32) {
	k.ends, k.order = scratch[:k.chunks()], scratch[k.chunks():]
	clear(k.ends)
	per := int32(work.RowGrain(k.d))
	for _, id := range k.ids {
		k.ends[id/per]++
	}
	sum := int32(0)
	for c, n := range k.ends {
		k.ends[c] = sum
		sum += n
	}
	for i, id := range k.ids {
		end := &k.ends[id/per]
		k.order[*end] = int32(i)
		*end++
	}
}

func (k *scatterAdd) Chunk(c int) {
	lo, hi := work.Interval(c, work.RowGrain(k.d), k.vocabulary)
	clear(k.y[lo*k.d : hi*k.d])
	start := int32(0)
	if c > 0 {
		start = k.ends[c-1]
	}
	for _, i := range k.order[start:k.ends[c]] {
		r := int(k.ids[i])
		y := k.y[r*k.d : (r+1)*k.d]
		k.add(y, y, k.dy[int(i)*k.d:(int(i)+1)*k.d])
	}
	if k.then != nil {
		k.then.After(lo, hi, 0, k.d)
	}
}
