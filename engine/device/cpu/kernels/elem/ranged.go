package elem

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var rangedKernels = work.Table{
	"ranged(f32...)->f32":                                      newRanged,
	"ranged(f32...)->f32,f32":                                  newRanged,
	"ranged(f32,f32,f32,f32,i32,f32)->f32,f32,f32":             newRanged,
	"ranged(f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32":         newRanged,
	"ranged(f32...)->f32,f32,f32":                              newRanged,
	"ranged(f32,f32,f32,f32,f32,i32,f32)->f32,f32,f32,f32":     newRanged,
	"ranged(f32,f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32,f32": newRanged,
}

// wholeKernels are the updates that ranged runs.
var wholeKernels = device.MergeKernels(updateKernels, averagedKernels)

// ranged runs the kernel of an update on a range of its memory.
type ranged struct {
	work.Kernel
	args         work.Args
	in, out      []bool // of each input and output: it has more than the range
	places       []int
	begin, bytes int // of the range
}

func newRanged(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Ranged)
	k := &ranged{begin: 4 * op.From, bytes: 4 * op.Count, places: op.Places()}
	var in, out []*graph.Value
	in, k.in = partsOf(op, n.In)
	out, k.out = partsOf(op, n.Out)
	k.args = work.Args{In: make([][]byte, len(in)), Out: make([][]byte, len(out))}
	var err error
	k.Kernel, err = work.New(wholeKernels)(&graph.Node{ID: n.ID, Op: op.Op, In: in, Out: out, Phase: n.Phase, Layer: n.Layer}, on)
	return k, err
}

// partsOf is the ranges of values, and which of the values have more.
func partsOf(op ops.Ranged, vs []*graph.Value) (parts []*graph.Value, cut []bool) {
	for i, m := range op.Parts(graph.Metas(vs)) {
		parts = append(parts, &graph.Value{Name: vs[i].Name, Meta: m})
		cut = append(cut, op.Cuts(vs[i].Meta))
	}
	return parts, cut
}

func (k *ranged) Run(p work.Pool, a *work.Args) error {
	for o, i := range k.places {
		if k.out[o] && !work.SameMemory(a.In[i], a.Out[o]) {
			copy(a.Out[o], a.In[i])
		}
	}
	k.narrow(k.args.In, a.In, k.in)
	k.narrow(k.args.Out, a.Out, k.out)
	k.args.Scratch = a.Scratch
	return k.Kernel.Run(p, &k.args)
}

// narrow sets parts to the range of memory that has more.
func (k *ranged) narrow(parts, memory [][]byte, cut []bool) {
	for i, b := range memory {
		if cut[i] {
			b = b[k.begin:][:k.bytes]
		}
		parts[i] = b
	}
}
