package kernelstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// Failer is what *testing.T and *rapid.T share here.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Rig makes kernels for a target and runs them.
type Rig struct {
	On  work.Target
	New func(n *graph.Node, on work.Target) (work.Kernel, error)
	// PackCache describes the input that a kernel can keep packed; nil where no kernel can.
	PackCache func(k work.Kernel) work.PackCache
}

// With is r for an instruction set of this CPU.
func (r Rig) With(set isa.ISA) Rig {
	r.On = work.TargetOf(set)
	return r
}

// EachISA runs a test for each instruction set of this CPU, at the same time.
func (r Rig) EachISA(t *testing.T, test func(t *testing.T, r Rig)) {
	t.Helper()
	for set := isa.Generic; set <= isa.Best(); set++ {
		t.Run(set.String(), func(t *testing.T) {
			t.Parallel()
			test(t, r.With(set))
		})
	}
}

// EachISAInTurn is EachISA, one after the other: for tests that count allocations.
func (r Rig) EachISAInTurn(t *testing.T, test func(t *testing.T, r Rig)) {
	t.Helper()
	for set := isa.Generic; set <= isa.Best(); set++ {
		t.Run(set.String(), func(t *testing.T) { test(t, r.With(set)) })
	}
}

// NodeOf applies an op outside any graph.
func NodeOf(op graph.Op, in []ref.Array) (*graph.Node, error) {
	n := &graph.Node{Op: op}
	metas := make([]shape.Meta, len(in))
	for i, a := range in {
		metas[i] = a.Meta
		n.In = append(n.In, &graph.Value{Name: fmt.Sprint("in", i), Meta: a.Meta})
	}
	outs, err := op.Infer(metas)
	if err != nil {
		return nil, err
	}
	for i, m := range outs {
		n.Out = append(n.Out, &graph.Value{Name: fmt.Sprint("out", i), Meta: m, Node: n, Out: i})
	}
	return n, nil
}

// Launch is a kernel with its memory.
type Launch struct {
	Node    *graph.Node
	Kernel  work.Kernel
	In, Out []Guarded
	Args    work.Args
	scratch Guarded
}

// Prepare makes the kernel of an op; alias lists, per output, the input whose
// memory it takes, or -1.
func (r Rig) Prepare(op graph.Op, in []ref.Array, alias []int) (*Launch, error) {
	n, err := NodeOf(op, in)
	if err != nil {
		return nil, err
	}
	k, err := r.New(n, r.On)
	if err != nil {
		return nil, err
	}
	l := &Launch{Node: n, Kernel: k, scratch: NewGuarded(int(k.ScratchBytes()))}
	for _, a := range in {
		l.In = append(l.In, Load(a))
		l.Args.In = append(l.Args.In, l.In[len(l.In)-1].Mem)
	}
	for i, v := range n.Out {
		var g Guarded
		if alias != nil && alias[i] >= 0 {
			g = l.In[alias[i]]
		} else {
			g = NewGuarded(int(v.Meta.Bytes()))
		}
		l.Out = append(l.Out, g)
		l.Args.Out = append(l.Args.Out, g.Mem)
	}
	l.Args.Scratch = l.scratch.Mem
	return l, nil
}

// Run runs the kernel and checks the guards.
func (l *Launch) Run(p work.Pool) error {
	if err := l.Kernel.Run(p, &l.Args); err != nil {
		return err
	}
	for _, gs := range [][]Guarded{{l.scratch}, l.In, l.Out} {
		for _, g := range gs {
			if !g.Intact() {
				return fmt.Errorf("%v wrote outside its memory", l.Node)
			}
		}
	}
	return nil
}

// Bytes are all outputs in one string.
func (l *Launch) Bytes() string {
	var b strings.Builder
	for _, g := range l.Out {
		b.Write(g.Mem)
	}
	return b.String()
}

// Sample is one application of an op, and how far from the reference an
// output may be: |got-want| <= Tol*(1+|want|).
type Sample struct {
	Op  graph.Op
	In  []ref.Array
	Tol float64
}

// Reference is the outputs of the reference kernel.
func (s Sample) Reference(t Failer) []ref.Array {
	t.Helper()
	want, err := ref.Run(s.Op, s.In)
	if err != nil {
		t.Fatalf("reference: %v", err)
	}
	return want
}

// Run makes and runs a sample's kernel.
func (r Rig) Run(t Failer, s Sample, alias []int, p work.Pool) *Launch {
	t.Helper()
	l, err := r.Prepare(s.Op, s.In, alias)
	if err != nil {
		t.Fatalf("%s: %v", graph.OpString(s.Op), err)
	}
	if err := l.Run(p); err != nil {
		t.Fatalf("%v: %v", l.Node, err)
	}
	return l
}

// Check compares with the reference, for several thread counts and in
// place where the op allows it.
func (r Rig) Check(t Failer, s Sample, seed uint64) {
	t.Helper()
	r.CheckAgainst(t, s, s.Reference(t), seed)
}

// CheckAgainst is Check with the reference's outputs.
func (r Rig) CheckAgainst(t Failer, s Sample, want []ref.Array, seed uint64) {
	t.Helper()
	base := r.Run(t, s, nil, Serial{})
	for i, w := range want {
		compare(t, base.Node, i, base.Out[i].Mem, w, s.Tol)
	}
	bits := base.Bytes()
	for threads := 1; threads <= 3; threads++ {
		l := r.Run(t, s, nil, Shuffled{threads, rand.New(rand.NewPCG(seed, uint64(threads)))})
		if l.Bytes() != bits {
			t.Fatalf("%v: %d threads give other bits than one in order", base.Node, threads)
		}
	}
	r.CheckCached(t, s, base)
	al, ok := s.Op.(graph.Aliaser)
	if !ok || !fits(base.Node, al.Alias()) {
		return
	}
	l := r.Run(t, s, al.Alias(), Shuffled{2, rand.New(rand.NewPCG(seed, 9))})
	if l.Bytes() != bits {
		t.Fatalf("%v: other bits in place", base.Node)
	}
}

// CheckCached runs a kernel that can keep an input packed twice with the same cache
// memory, the second time without the input, and wants the bits of base.
func (r Rig) CheckCached(t Failer, s Sample, base *Launch) {
	t.Helper()
	if r.PackCache == nil {
		return
	}
	c := r.PackCache(base.Kernel)
	if c.Bytes == 0 {
		return
	}
	l, err := r.Prepare(s.Op, s.In, nil)
	if err != nil {
		t.Fatalf("%v: %v", base.Node, err)
	}
	cache := NewGuarded(int(c.Bytes))
	for _, cached := range []bool{false, true} {
		l.Args.Cache, l.Args.Cached = cache.Mem, cached
		if err := l.Run(Shuffled{2, rand.New(rand.NewPCG(1, 1))}); err != nil {
			t.Fatalf("%v: %v", l.Node, err)
		}
		if !cache.Intact() {
			t.Fatalf("%v wrote outside cache memory", l.Node)
		}
		if l.Bytes() != base.Bytes() {
			t.Fatalf("%v: other bits with cache memory, packed before: %v", l.Node, cached)
		}
		clear(l.Args.In[c.Input])
	}
}

// fits reports whether every output can take its input's memory.
func fits(n *graph.Node, alias []int) bool {
	for i, a := range alias {
		if a >= 0 && n.Out[i].Meta.Bytes() != n.In[a].Meta.Bytes() {
			return false
		}
	}
	return true
}

// Compare fails unless an output is within tol of the reference's.
func Compare(t Failer, l *Launch, out int, want ref.Array, tol float64) {
	t.Helper()
	compare(t, l.Node, out, l.Out[out].Mem, want, tol)
}

func compare(t Failer, n *graph.Node, out int, got []byte, want ref.Array, tol float64) {
	t.Helper()
	for i, w := range want.I {
		if g := shape.View[int32](got)[i]; g != w {
			t.Fatalf("%v: output %d element %d is %d, want %d", n, out, i, g, w)
		}
	}
	floats := shape.View[float32](got)
	for i, w := range want.F {
		w = float64(float32(w)) // infinite where it is too large
		g := float64(floats[i])
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))) && !(math.IsNaN(g) && math.IsNaN(w)) && g != w {
			t.Fatalf("%v %v: output %d element %d is %v, want %v", n, graph.Metas(n.In), out, i, g, w)
		}
	}
}

// Of is an application of op to some inputs.
func Of(op graph.Op, tol float64, in ...ref.Array) Sample { return Sample{Op: op, In: in, Tol: tol} }
