package kernels

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/product"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/rows"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

const cacheLine = 64 // bytes

// NewCluster makes the kernel of a cluster. Its arguments are the cluster's In
// and Out. It fails as [New] does.
func NewCluster(c *fuse.Cluster, on work.Target) (work.Kernel, error) {
	if len(c.Nodes) == 1 {
		return New(c.Nodes[0], on)
	}
	if c.Batch || c.Lockstep {
		return newBatch(on, c)
	}
	p, err := newProgram(on, c)
	if err != nil {
		return nil, err
	}
	k := &cluster{program: p}
	for _, n := range c.Sums {
		s, err := newClusterSum(c, n, on)
		if err != nil {
			return nil, err
		}
		k.sums = append(k.sums, s)
	}
	if c.Head == nil {
		return k, nil
	}
	if err := k.follow(c, on); err != nil {
		return nil, err
	}
	return k, nil
}

// follow makes k the epilogue of the cluster's head.
func (k *cluster) follow(c *fuse.Cluster, on work.Target) error {
	first, err := New(c.Head, on)
	if err != nil {
		return err
	}
	f, ok := first.(work.Follower)
	if !ok {
		return fmt.Errorf("BUG: %s heads a cluster, and its kernel lets no op follow", c.Head.Op.Kind())
	}
	k.head = f
	for _, v := range c.Reads[slices.Index(c.Nodes, c.Head)] {
		k.operands = append(k.operands, slices.Index(c.In, v))
	}
	k.results = []int{c.Raw}
	for _, v := range c.Head.Out[1:] {
		k.results = append(k.results, slices.Index(c.Out, v))
	}
	k.args = work.Args{In: make([][]byte, len(k.operands)), Out: make([][]byte, len(k.results))}
	f.Then(k)
	return nil
}

// clusterSum is the sum of rows of an output of a cluster.
type clusterSum struct {
	*rows.RowSum
	x, y int // in the cluster's memory
}

func newClusterSum(c *fuse.Cluster, n *graph.Node, on work.Target) (clusterSum, error) {
	k, err := New(n, on)
	if err != nil {
		return clusterSum{}, err
	}
	s, ok := rows.RowSumOf(k)
	if !ok {
		return clusterSum{}, fmt.Errorf("BUG: %v does not sum rows", n)
	}
	return clusterSum{
		RowSum: s,
		x:      len(c.In) + slices.Index(c.Out, c.Reads[slices.Index(c.Nodes, n)][0]),
		y:      len(c.In) + slices.Index(c.Out, n.Out[0]),
	}, nil
}

// cluster is a program, over all elements or as the epilogue of a head, and sums of
// rows that it writes.
type cluster struct {
	*program
	sums     []clusterSum
	head     work.Follower // nil without one
	operands []int         // the inputs that it reads
	results  []int         // the outputs that it writes
	args     work.Args
}

// ScratchBytes is for the sums, and behind them for the head.
func (k *cluster) ScratchBytes() int64 {
	n := k.sumBytes()
	if k.head != nil {
		n += k.head.ScratchBytes()
	}
	return n
}

// sumBytes is a number for each row and sum, in whole cache lines.
func (k *cluster) sumBytes() int64 {
	return int64(work.CeilDiv(len(k.sums)*k.rows*8, cacheLine)) * cacheLine
}

func (k *cluster) Run(p work.Pool, a *work.Args) error {
	k.bind(a)
	for i, s := range k.sums {
		s.Bind(work.Doubles(a.Scratch[i*k.program.rows*8:], k.program.rows))
	}
	if err := k.compute(p, a); err != nil {
		return err
	}
	for _, s := range k.sums {
		s.Finish(k.memory[s.y])
	}
	return nil
}

// PackCacheOf describes the input that k can keep packed. Its Bytes are 0 where there is
// none.
func PackCacheOf(k work.Kernel) work.PackCache {
	c, ok := k.(*cluster)
	if !ok {
		return product.MatMulPackCache(k)
	}
	if c.head == nil {
		return work.PackCache{}
	}
	of := PackCacheOf(c.head)
	if of.Bytes > 0 {
		of.Input = c.operands[of.Input]
	}
	return of
}

// compute runs the program for all elements.
func (k *cluster) compute(p work.Pool, a *work.Args) error {
	if k.head == nil {
		work.Do(p, work.CeilDiv(k.rows, work.RowGrain(k.cols))*work.CeilDiv(k.cols, work.Grain), k)
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

// Chunk computes some rows, or some columns of one.
func (k *cluster) Chunk(i int) {
	across := work.CeilDiv(k.cols, work.Grain)
	i0, i1 := work.Interval(i/across, work.RowGrain(k.cols), k.rows)
	j0, j1 := work.Interval(i%across, work.Grain, k.cols)
	k.After(i0, i1, j0, j1)
}

// After implements [work.Epilogue].
func (k *cluster) After(i0, i1, j0, j1 int) {
	k.run(rect{i0: i0, i1: i1, j0: j0, j1: j1})
	for _, s := range k.sums {
		s.Take(k.memory[s.x], k.cols, i0, i1)
	}
}
