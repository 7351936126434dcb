package eager

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// entry is an op at given input metadata on one device: its graph and
// executables. The cache of a lane keeps it, and calls under way do. The lane's mu guards the fields from exes on.
type entry struct {
	op          graph.Op     // keeps a function, whose key is its address
	graph       *graph.Graph // of one node, or of a function's
	sure        bool         // no contents of its inputs make it fail
	short       bool         // it may run on the caller's goroutine
	checkFinite bool         // it fails if it makes NaN or Inf
	outs        []*pool
	alias       []int // per output, the input it may be computed in, or -1
	over        []int // per input, the output that may be computed in it, or -1

	exes    []*variant
	pending int  // calls that have begun and not ended
	dropped bool // by the cache

	quick  bool // key is valid
	key    quickKey
	floats []int  // fields of op that are floats
	next   *entry // of the call that came after this one the last time; nil before
}

// mostDonated is the number of results for which variant.donated has a bit.
const mostDonated = 64

// variant is an executable that computes some outputs in the memory of inputs.
type variant struct {
	donated uint64 // bit k: output k takes over input alias[k]
	exe     device.Executable
	scratch *pool // of exe's working memory; nil if it needs none
}

// newEntry makes the entry of an op without its outputs' pools, and checks it against
// the op's metadata rule and the device. An error of stop ends it.
func newEntry(op graph.Op, in []shape.Meta, dev device.Device, o compileOptions, stop func() error) (*entry, error) {
	g, err := graphOf(op, in, stop)
	if err != nil {
		return nil, err
	}
	e := &entry{op: op, graph: g, sure: !o.checkFinite, checkFinite: o.checkFinite, alias: slices.Repeat([]int{-1}, len(g.Outputs)), over: slices.Repeat([]int{-1}, len(in))}
	e.pair()
	own := false
	for _, n := range g.Nodes {
		e.sure = e.sure && sure(n.Op, graph.Metas(n.In))
		own = own || graph.BringsKernel(n.Op)
		if err := dev.Supports(n); err != nil {
			return nil, err
		}
	}
	e.short = !own && seconds(g, dev.Spec()) <= o.short
	return e, nil
}

// compileOptions apply to all entries of a lane.
type compileOptions struct {
	short       float64 // seconds: an op that takes no longer is short
	checkFinite bool
}

// shortSeconds is the time that an op may take on its caller's goroutine. To hand it to
// another goroutine takes a few microseconds, and the caller does not wait for it.
const shortSeconds = 10e-6

// bytesPerSecond is a guess at the speed of memory.
const bytesPerSecond = 1e10

// seconds is a guess at the time that a graph takes.
func seconds(g *graph.Graph, s device.Spec) float64 {
	c := g.Cost()
	return float64(c.Flops)/max(s.FlopsPerSecond, 1) + float64(c.Bytes)/bytesPerSecond
}

// graphOf is the graph of an op, or of a function's ops. A panic of the program's own code
// in it is an error.
func graphOf(op graph.Op, in []shape.Meta, stop func() error) (g *graph.Graph, err error) {
	defer func() {
		if r := recover(); r != nil {
			g, err = nil, panicked(op, panics.Text(r))
		}
	}()
	if f, ok := op.(*Function); ok {
		return graph.Expanded(f, in, stop)
	}
	if _, err := op.Infer(in); err != nil {
		return nil, graph.ShapeError(err)
	}
	b := graph.NewBuilder(op.Kind(), 1)
	b.Stop(stop)
	for i, v := range b.Apply(op, inputs(b, in)...) {
		b.Output(fmt.Sprintf("out%d", i), v)
	}
	return b.Graph()
}

// sure reports whether an op succeeds whatever its inputs hold. Integers can be outside
// a table, and a check can find what it looks for; code of a program can do anything.
func sure(op graph.Op, in []shape.Meta) bool {
	integers := slices.ContainsFunc(in, func(m shape.Meta) bool { return m.DType != shape.Float32 })
	return !integers && !graph.BringsKernel(op) && op != graph.Op(ops.CheckFinite{})
}

// compiled is the executable for a set of donated inputs; nil if it was not compiled yet.
func (e *entry) compiled(donated uint64) *variant {
	for _, v := range e.exes {
		if v.donated == donated {
			return v
		}
	}
	return nil
}

// compile compiles the entry for a set of donated inputs. An error of stop ends it.
func (e *entry) compile(dev device.Device, donated uint64, stop func() error) (*variant, error) {
	alias := make([]int, len(e.alias))
	for k, j := range e.alias {
		alias[k] = -1
		if donated>>k&1 == 1 {
			alias[k] = j
		}
	}
	exe, err := dev.Compile(e.graph, device.CompileOptions{Alias: alias, CheckFinite: e.checkFinite, Stop: stop})
	if err != nil {
		return nil, err
	}
	return &variant{donated: donated, exe: exe}, nil
}

// ended ends a pending call. It reports whether the entry is to be released: it was dropped, and
// no other call uses it.
func (e *entry) ended() bool {
	e.pending--
	return e.dropped && e.pending == 0
}

// release releases the executables; those that are queued still run.
func (e *entry) release() {
	for _, v := range e.exes {
		v.exe.Release()
	}
	e.exes = nil
}

// pair finds which outputs of the entry's graph can be computed in which inputs: each
// takes over one at most.
func (e *entry) pair() {
	needs := graph.NeedsOf(e.graph)
	for k, v := range e.graph.Outputs[:min(len(e.graph.Outputs), mostDonated)] {
		if j := takesOver(e.graph, needs, v); j >= 0 && e.over[j] < 0 && e.graph.Inputs[j].Meta.Equal(v.Meta) {
			e.alias[k], e.over[j] = j, k
		}
	}
}

// takesOver is the input of g in whose memory the node of v can write v; -1 if there is
// none. Nothing that comes after the node may read the input, nor a view of it, nor have it
// as a guard.
func takesOver(g *graph.Graph, needs *graph.Needs, v *graph.Value) int {
	n := v.Node
	if n == nil {
		return -1
	}
	a, ok := n.Op.(graph.Aliaser)
	if !ok || v.Out >= len(a.Alias()) || a.Alias()[v.Out] < 0 {
		return -1
	}
	in := n.In[a.Alias()[v.Out]]
	for i, reader := range g.Nodes {
		guards := slices.ContainsFunc(needs.Guards(i), func(x graph.Guard) bool { return x.Value == in })
		if reader != n && (guards || slices.Contains(reader.In, in)) && (reader.ID > n.ID || fuse.IsView(reader)) {
			return -1
		}
	}
	return slices.Index(g.Inputs, in)
}
