package kernels

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/fuse"
)

// NewCluster makes the kernel of a cluster. Its arguments are the cluster's In
// and Out. It fails as [New] does.
func NewCluster(c *fuse.Cluster) (Kernel, error) {
	if len(c.Nodes) == 1 {
		return New(c.Nodes[0])
	}
	if c.Batch {
		return newBatch(c)
	}
	p, err := newProgram(c)
	if err != nil {
		return nil, err
	}
	k := &cluster{program: p}
	if c.Head == nil {
		return k, nil
	}
	first, err := New(c.Head)
	if err != nil {
		return nil, err
	}
	f, ok := first.(Follower)
	if !ok {
		return nil, fmt.Errorf("BUG: nothing can follow %s", c.Head.Op.Kind())
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
	return k, nil
}

// cluster is a tile program, over all elements or behind a head.
type cluster struct {
	*program
	head     Follower // nil without one
	operands []int    // which inputs it reads
	results  []int    // which outputs it writes
	args     Args
}

func (k *cluster) ScratchBytes() int64 {
	if k.head == nil {
		return 0
	}
	return k.head.ScratchBytes()
}

func (k *cluster) Run(p Pool, a *Args) error {
	k.bind(a)
	if k.head == nil {
		do(p, chunks(k.rows, rowGrain(k.cols))*chunks(k.cols, grain), k)
		return nil
	}
	for i, j := range k.operands {
		k.args.In[i] = a.In[j]
	}
	for i, o := range k.results {
		k.args.Out[i] = a.Out[o]
	}
	k.args.Scratch = a.Scratch
	return k.head.Run(p, &k.args)
}

// Chunk computes some rows, or part of one.
func (k *cluster) Chunk(i int) {
	across := chunks(k.cols, grain)
	i0, i1 := span(i/across, rowGrain(k.cols), k.rows)
	j0, j1 := span(i%across, grain, k.cols)
	k.run(area{i0, i1, j0, j1})
}

// After implements [Epilogue].
func (k *cluster) After(i0, i1, j0, j1 int) { k.run(area{i0, i1, j0, j1}) }
