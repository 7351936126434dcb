package kernels

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/fuse"
)

// batch runs the chunks of several kernels in one loop: one kernel's after the other's,
// or, in lockstep, chunk by chunk.
type batch struct {
	members  []member
	lockstep bool
	ends     []int // chunks of all members up to each
	scratch  int64
}

// member is a kernel of a batch, and which of the batch's arguments are its own.
type member struct {
	work.Loop
	in, out []int // indices in the batch's arguments; in counts on from inputs to outputs
	scratch int64 // offset of its scratch memory
	args    work.Args
}

func newBatch(on work.Target, c *fuse.Cluster) (work.Kernel, error) {
	b := &batch{members: make([]member, len(c.Nodes)), lockstep: c.Lockstep, ends: make([]int, len(c.Nodes))}
	for i, n := range c.Nodes {
		k, err := New(n, on)
		if err != nil {
			return nil, err
		}
		l, ok := k.(work.Loop)
		if !ok {
			return nil, fmt.Errorf("BUG: %s is in a batch, and is no loop", n.Op.Kind())
		}
		p := &b.members[i]
		p.Loop = l
		for _, v := range c.Reads[i] {
			p.in = append(p.in, slices.Index(slices.Concat(c.In, c.Out), v))
		}
		for _, v := range n.Out {
			p.out = append(p.out, slices.Index(c.Out, v))
		}
		p.scratch = b.scratch
		b.scratch += int64(work.CeilDiv(int(l.ScratchBytes()), cacheLine)) * cacheLine
		p.args = work.Args{In: make([][]byte, len(p.in)), Out: make([][]byte, len(p.out))}
	}
	return b, nil
}

func (b *batch) ScratchBytes() int64 { return b.scratch }

func (b *batch) Run(pool work.Pool, a *work.Args) error {
	total := 0
	for i := range b.members {
		p := &b.members[i]
		for k, j := range p.in {
			if j < len(a.In) {
				p.args.In[k] = a.In[j]
			} else {
				p.args.In[k] = a.Out[j-len(a.In)]
			}
		}
		for k, j := range p.out {
			p.args.Out[k] = a.Out[j]
		}
		p.args.Scratch = a.Scratch[p.scratch:]
		total += p.Bind(&p.args)
		b.ends[i] = total
	}
	if b.lockstep {
		total = b.ends[0]
	}
	work.Do(pool, total, b)
	for i := range b.members {
		if err := b.members[i].End(&b.members[i].args); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) Chunk(i int) {
	if b.lockstep {
		for k := range b.members {
			b.members[k].Chunk(i)
		}
		return
	}
	at, _ := slices.BinarySearch(b.ends, i+1)
	if at > 0 {
		i -= b.ends[at-1]
	}
	b.members[at].Chunk(i)
}
