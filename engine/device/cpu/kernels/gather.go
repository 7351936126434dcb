package kernels

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

var gatherKernels = map[string]constructor{
	"gather(f32,i32)->f32":      newGather,
	"scatter_add(i32,f32)->f32": newScatterAdd,
}

// lookup is rows of a table by id.
type lookup struct {
	n, d, vocabulary int // ids, width, rows of the table
	ids              []int32
}

// check finds the first id outside the table.
func (k *lookup) check() error {
	for i, id := range k.ids {
		if id < 0 || int(id) >= k.vocabulary {
			return fmt.Errorf("token %d at position %d is outside the vocabulary of %d: check the dataset's tokenizer against the model's vocabulary",
				id, i, k.vocabulary)
		}
	}
	return nil
}

// gather copies rows of the table.
type gather struct {
	lookup
	y, table []float32
	then     Epilogue
}

func newGather(n *graph.Node) (Kernel, error) {
	t := in(n, 0).Shape
	return &gather{lookup: lookup{n: in(n, 1).Elems(), d: t[1], vocabulary: t[0]}}, nil
}

// Then implements [Follower].
func (k *gather) Then(e Epilogue) { k.then = e }

func (k *gather) ScratchBytes() int64 { return 0 }

func (k *gather) Run(p Pool, a *Args) error {
	k.ids = ints(a.In[1], k.n)
	if err := k.check(); err != nil {
		return err
	}
	k.y, k.table = floats(a.Out[0], k.n*k.d), floats(a.In[0], k.vocabulary*k.d)
	do(p, chunks(k.n, rowGrain(k.d)), k)
	return nil
}

func (k *gather) Chunk(i int) {
	lo, hi := span(i, rowGrain(k.d), k.n)
	for row := lo; row < hi; row++ {
		copy(k.y[row*k.d:(row+1)*k.d], k.table[int(k.ids[row])*k.d:])
	}
	if k.then != nil {
		k.then.After(lo, hi, 0, k.d)
	}
}

// scatterChunks is into how many ranges of rows the output is cut. Each chunk
// reads all ids and adds those of its own rows, in the order of the ids.
const scatterChunks = 16

type scatterAdd struct {
	lookup
	add   pairFunc
	y, dy []float32
}

func newScatterAdd(n *graph.Node) (Kernel, error) {
	t := out(n, 0).Shape
	return &scatterAdd{add: Using().vec().Add, lookup: lookup{n: in(n, 0).Elems(), d: t[1], vocabulary: t[0]}}, nil
}

func (k *scatterAdd) ScratchBytes() int64 { return 0 }

// per is how many rows a chunk has.
func (k *scatterAdd) per() int { return max(rowGrain(k.d), chunks(k.vocabulary, scatterChunks)) }

func (k *scatterAdd) Run(p Pool, a *Args) error {
	k.ids = ints(a.In[0], k.n)
	if err := k.check(); err != nil {
		return err
	}
	k.y, k.dy = floats(a.Out[0], k.vocabulary*k.d), floats(a.In[1], k.n*k.d)
	do(p, chunks(k.vocabulary, k.per()), k)
	return nil
}

func (k *scatterAdd) Chunk(i int) {
	lo, hi := span(i, k.per(), k.vocabulary)
	clear(k.y[lo*k.d : hi*k.d])
	for i, id := range k.ids {
		if r := int(id); r >= lo && r < hi {
			y := k.y[r*k.d : (r+1)*k.d]
			k.add(y, y, k.dy[i*k.d:(i+1)*k.d])
		}
	}
}
