package kernels

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/fuse"
)

// loop is a kernel whose run is one parallel loop.
type loop interface {
	Kernel
	Task
	// bind takes the arguments of a run and says how many chunks it has.
	bind(a *Args) int
}

// batch runs the chunks of several kernels in one loop.
type batch struct {
	parts []part
	ends  []int // the chunks of all parts up to each
}

// part is a kernel of a batch, and which of the batch's arguments are its own.
type part struct {
	loop
	in, out []int
	args    Args
}

func newBatch(c *fuse.Cluster) (Kernel, error) {
	b := &batch{parts: make([]part, len(c.Nodes)), ends: make([]int, len(c.Nodes))}
	for i, n := range c.Nodes {
		k, err := New(n)
		if err != nil {
			return nil, err
		}
		l, ok := k.(loop)
		if !ok {
			return nil, fmt.Errorf("BUG: %s is in a batch, and is no loop", n.Op.Kind())
		}
		p := &b.parts[i]
		p.loop = l
		for _, v := range c.Reads[i] {
			p.in = append(p.in, slices.Index(c.In, v))
		}
		for _, v := range n.Out {
			p.out = append(p.out, slices.Index(c.Out, v))
		}
		p.args = Args{In: make([][]byte, len(p.in)), Out: make([][]byte, len(p.out))}
	}
	return b, nil
}

func (b *batch) ScratchBytes() int64 { return 0 }

func (b *batch) Run(pool Pool, a *Args) error {
	total := 0
	for i := range b.parts {
		p := &b.parts[i]
		for k, j := range p.in {
			p.args.In[k] = a.In[j]
		}
		for k, j := range p.out {
			p.args.Out[k] = a.Out[j]
		}
		total += p.bind(&p.args)
		b.ends[i] = total
	}
	do(pool, total, b)
	return nil
}

func (b *batch) Chunk(i int) {
	at, _ := slices.BinarySearch(b.ends, i+1)
	if at > 0 {
		i -= b.ends[at-1]
	}
	b.parts[at].Chunk(i)
}
