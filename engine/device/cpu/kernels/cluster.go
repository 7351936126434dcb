package kernels

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/fuse"
)

const cacheLine = 64 // bytes

// NewCluster makes the kernel of a cluster. Its arguments are the cluster's In
// and Out. It fails as [New] does.
func NewCluster(c *fuse.Cluster) (Kernel, error) {
	if len(c.Nodes) == 1 {
		return New(c.Nodes[0])
	}
	if c.Batch || c.Lockstep {
		return newBatch(c)
	}
	p, err := newProgram(c)
	if err != nil {
		return nil, err
	}
	k := &cluster{program: p}
	for _, n := range c.Sums {
		s, err := newRowSum(c, n)
		if err != nil {
			return nil, err
		}
		k.sums = append(k.sums, s)
	}
	if c.Head == nil {
		return k, nil
	}
	if err := k.follow(c); err != nil {
		return nil, err
	}
	return k, nil
}

// follow puts k behind the cluster's head.
func (k *cluster) follow(c *fuse.Cluster) error {
	first, err := New(c.Head)
	if err != nil {
		return err
	}
	f, ok := first.(Follower)
	if !ok {
		return fmt.Errorf("BUG: nothing can follow %s", c.Head.Op.Kind())
	}
	k.head = f
	for _, v := range c.Reads[slices.Index(c.Nodes, c.Head)] {
		k.operands = append(k.operands, slices.Index(c.In, v))
	}
	k.results = []int{c.Raw}
	for _, v := range c.Head.Out[1:] {
		k.results = append(k.results, slices.Index(c.Out, v))
	}
	k.args = Args{In: make([][]byte, len(k.operands)), Out: make([][]byte, len(k.results))}
	f.Then(k)
	return nil
}

// cluster is a tile program, over all elements or behind a head, and sums of
// rows that it writes.
type cluster struct {
	*program
	sums     []*rowSum
	head     Follower // nil without one
	operands []int    // which inputs it reads
	results  []int    // which outputs it writes
	args     Args
}

// ScratchBytes is what the sums need, and behind that what the head needs.
func (k *cluster) ScratchBytes() int64 {
	n := k.sumBytes()
	if k.head != nil {
		n += k.head.ScratchBytes()
	}
	return n
}

// sumBytes is a number per row and sum, in whole cache lines.
func (k *cluster) sumBytes() int64 {
	return int64(ceilDiv(len(k.sums)*k.rows*8, cacheLine)) * cacheLine
}

func (k *cluster) Run(p Pool, a *Args) error {
	k.bind(a)
	for i, s := range k.sums {
		s.rows = doubles(a.Scratch[i*k.program.rows*8:], k.program.rows)
	}
	if err := k.compute(p, a); err != nil {
		return err
	}
	for _, s := range k.sums {
		s.finish(k.memory)
	}
	return nil
}

// Keeps is what the head keeps.
func (k *cluster) Keeps() (input int, bytes int64, layout string) {
	if head, ok := k.head.(Keeper); ok {
		input, bytes, layout = head.Keeps()
		input = k.operands[input]
	}
	return input, bytes, layout
}

// compute runs the program for all elements.
func (k *cluster) compute(p Pool, a *Args) error {
	if k.head == nil {
		do(p, ceilDiv(k.rows, rowGrain(k.cols))*ceilDiv(k.cols, grain), k)
		return nil
	}
	for i, j := range k.operands {
		k.args.In[i] = a.In[j]
	}
	for i, o := range k.results {
		k.args.Out[i] = a.Out[o]
	}
	k.args.Scratch, k.args.Cache, k.args.Cached = a.Scratch[k.sumBytes():], a.Cache, a.Cached
	return k.head.Run(p, &k.args)
}

// Chunk computes some rows, or part of one.
func (k *cluster) Chunk(i int) {
	across := ceilDiv(k.cols, grain)
	i0, i1 := interval(i/across, rowGrain(k.cols), k.rows)
	j0, j1 := interval(i%across, grain, k.cols)
	k.After(i0, i1, j0, j1)
}

// After implements [Epilogue].
func (k *cluster) After(i0, i1, j0, j1 int) {
	k.run(rect{i0, i1, j0, j1})
	for _, s := range k.sums {
		s.take(k.memory, k.cols, i0, i1)
	}
}
