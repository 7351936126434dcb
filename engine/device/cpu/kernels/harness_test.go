package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// serial runs chunks in order.
type serial struct{}

func (serial) Threads() int { return 1 }
func (serial) Do(chunks int, t Task) {
	for i := range chunks {
		t.Chunk(i)
	}
}

// shuffled runs chunks in random order on several goroutines.
type shuffled struct {
	threads int
	rng     *rand.Rand
}

func (p shuffled) Threads() int { return p.threads }

func (p shuffled) Do(chunks int, t Task) {
	order := make(chan int, chunks)
	for _, i := range p.rng.Perm(chunks) {
		order <- i
	}
	close(order)
	var wg sync.WaitGroup
	for range p.threads {
		wg.Go(func() {
			for i := range order {
				t.Chunk(i)
			}
		})
	}
	wg.Wait()
}

// guard is how many bytes stand before and after each buffer, and what is in
// them.
const (
	guard     = 64
	guardByte = 0xA5
)

// guarded is a 64-byte aligned buffer between guards, filled with NaN, so that
// an element that is not written shows.
type guarded struct{ all, mem []byte }

func newGuarded(n int) guarded {
	raw := make([]byte, n+2*guard+64)
	skip := (64 - int(uintptr(unsafe.Pointer(&raw[0]))%64)) % 64
	all := raw[skip : skip+n+2*guard]
	for i := range all {
		all[i] = guardByte
	}
	mem := all[guard : guard+n : guard+n]
	for i := range mem {
		mem[i] = 0xff
	}
	return guarded{all, mem}
}

func (g guarded) intact() bool {
	for i := range guard {
		if g.all[i] != guardByte || g.all[len(g.all)-1-i] != guardByte {
			return false
		}
	}
	return true
}

// load is an array as device bytes.
func load(a ref.Array) guarded {
	g := newGuarded(int(a.Meta.Bytes()))
	if a.Meta.DType == shape.Int32 {
		copy(shape.View[int32](g.mem), a.I)
		return g
	}
	dst := shape.View[float32](g.mem)
	for i, v := range a.F {
		dst[i] = float32(v)
	}
	return g
}

// nodeOf applies an op outside any graph.
func nodeOf(op graph.Op, in []ref.Array) (*graph.Node, error) {
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

// launch is a kernel with its memory.
type launch struct {
	node    *graph.Node
	kernel  Kernel
	in, out []guarded
	scratch guarded
	args    Args
}

// prepare makes the kernel of an op; alias lists, per output, the input whose
// memory it takes, or -1.
func prepare(op graph.Op, in []ref.Array, alias []int) (*launch, error) {
	n, err := nodeOf(op, in)
	if err != nil {
		return nil, err
	}
	k, err := New(n)
	if err != nil {
		return nil, err
	}
	l := &launch{node: n, kernel: k, scratch: newGuarded(int(k.ScratchBytes()))}
	for _, a := range in {
		l.in = append(l.in, load(a))
		l.args.In = append(l.args.In, l.in[len(l.in)-1].mem)
	}
	for i, v := range n.Out {
		g := newGuarded(int(v.Meta.Bytes()))
		if alias != nil && alias[i] >= 0 {
			g = l.in[alias[i]]
		}
		l.out = append(l.out, g)
		l.args.Out = append(l.args.Out, g.mem)
	}
	l.args.Scratch = l.scratch.mem
	return l, nil
}

// run runs the kernel and checks the guards.
func (l *launch) run(p Pool) error {
	if err := l.kernel.Run(p, &l.args); err != nil {
		return err
	}
	for _, g := range append(append([]guarded{l.scratch}, l.in...), l.out...) {
		if !g.intact() {
			return fmt.Errorf("%v wrote outside its memory", l.node)
		}
	}
	return nil
}

// bytes are all outputs in one string.
func (l *launch) bytes() string {
	var b strings.Builder
	for _, g := range l.out {
		b.Write(g.mem)
	}
	return b.String()
}

// sample is one application of an op, and how far from the reference an
// output may be: |got-want| <= tol*(1+|want|).
type sample struct {
	op  graph.Op
	in  []ref.Array
	tol float64
}

// failer is what *testing.T and *rapid.T share here.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkSample compares with the reference, for several thread counts and in
// place where the op allows it.
func checkSample(t failer, s sample, seed uint64) {
	t.Helper()
	checkAgainst(t, s, reference(t, s), seed)
}

// reference is what the reference kernels make of a sample.
func reference(t failer, s sample) []ref.Array {
	t.Helper()
	want, err := ref.Run(s.op, s.in)
	if err != nil {
		t.Fatalf("reference: %v", err)
	}
	return want
}

// checkAgainst is checkSample with the reference's outputs.
func checkAgainst(t failer, s sample, want []ref.Array, seed uint64) {
	t.Helper()
	base := runSample(t, s, nil, serial{})
	for i, w := range want {
		compare(t, base.node, i, base.out[i].mem, w, s.tol)
	}
	for threads := 1; threads <= 3; threads++ {
		l := runSample(t, s, nil, shuffled{threads, rand.New(rand.NewPCG(seed, uint64(threads)))})
		if l.bytes() != base.bytes() {
			t.Fatalf("%v: %d threads give other bits than one in order", base.node, threads)
		}
	}
	checkKept(t, s, base)
	al, ok := s.op.(graph.Aliaser)
	if !ok || !fits(base.node, al.Alias()) {
		return
	}
	l := runSample(t, s, al.Alias(), shuffled{2, rand.New(rand.NewPCG(seed, 9))})
	if l.bytes() != base.bytes() {
		t.Fatalf("%v: other bits in place", base.node)
	}
}

// checkKept runs a kernel that keeps an input twice with the same kept memory,
// the second time without the input, and wants the bits of base.
func checkKept(t failer, s sample, base *launch) {
	t.Helper()
	k, ok := base.kernel.(Keeper)
	if !ok {
		return
	}
	input, bytes, _ := k.Keeps()
	if bytes == 0 {
		return
	}
	l, err := prepare(s.op, s.in, nil)
	if err != nil {
		t.Fatalf("%v: %v", base.node, err)
	}
	kept := newGuarded(int(bytes))
	for _, made := range []bool{false, true} {
		l.args.Cache, l.args.Cached = kept.mem, made
		if err := l.run(shuffled{2, rand.New(rand.NewPCG(1, 1))}); err != nil {
			t.Fatalf("%v: %v", l.node, err)
		}
		if !kept.intact() {
			t.Fatalf("%v wrote outside kept memory", l.node)
		}
		if l.bytes() != base.bytes() {
			t.Fatalf("%v: other bits with kept memory, made before: %v", l.node, made)
		}
		clear(l.args.In[input])
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

func runSample(t failer, s sample, alias []int, p Pool) *launch {
	t.Helper()
	l, err := prepare(s.op, s.in, alias)
	if err != nil {
		t.Fatalf("%s: %v", graph.OpString(s.op), err)
	}
	if err := l.run(p); err != nil {
		t.Fatalf("%v: %v", l.node, err)
	}
	return l
}

func compare(t failer, n *graph.Node, out int, got []byte, want ref.Array, tol float64) {
	t.Helper()
	for i, w := range want.I {
		if g := shape.View[int32](got)[i]; g != w {
			t.Fatalf("%v: output %d element %d is %d, want %d", n, out, i, g, w)
		}
	}
	for i, w := range want.F {
		w = float64(float32(w)) // infinite where it is too large
		g := float64(shape.View[float32](got)[i])
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))) && !(math.IsNaN(g) && math.IsNaN(w)) && g != w {
			t.Fatalf("%v %v: output %d element %d is %v, want %v", n, graph.Metas(n.In), out, i, g, w)
		}
	}
}

// source makes random arrays. Only shapes and attributes are drawn by rapid;
// the elements come from a seed that it draws.
type source struct {
	t   *rapid.T
	rng *rand.Rand
}

func newSource(t *rapid.T) source {
	seed := rapid.Uint64().Draw(t, "seed")
	return source{t, rand.New(rand.NewPCG(seed, 1))}
}

// dim draws a dimension from 0 to most, with 0 and 1 likely.
func (s source) dim(name string, most int) int {
	if rapid.IntRange(0, 19).Draw(s.t, name+"?") == 0 {
		return 0
	}
	return s.size(name, most)
}

// size draws a dimension from 1 to most.
func (s source) size(name string, most int) int { return rapid.IntRange(1, most).Draw(s.t, name) }

// shape draws a shape of some dimensions.
func (s source) shape(name string, minRank, maxRank, most int) shape.Shape {
	out := make(shape.Shape, rapid.IntRange(minRank, maxRank).Draw(s.t, name+" rank"))
	for i := range out {
		out[i] = s.dim(fmt.Sprint(name, i), most)
	}
	return out
}

// floats are float32 numbers in (lo, hi).
func (s source) floats(lo, hi float64, dims ...int) ref.Array {
	a := ref.New(shape.F32(dims...))
	for i := range a.F {
		a.F[i] = float64(float32(lo + (hi-lo)*s.rng.Float64()))
	}
	return a
}

// normal are normal numbers.
func (s source) normal(dims ...int) ref.Array {
	a := ref.New(shape.F32(dims...))
	for i := range a.F {
		a.F[i] = float64(float32(s.rng.NormFloat64()))
	}
	return a
}

// odd puts NaN and infinities into some arrays.
func (s source) odd(a ref.Array) ref.Array {
	if s.rng.IntN(3) == 0 {
		for range min(len(a.F), 1+s.rng.IntN(4)) {
			a.F[s.rng.IntN(len(a.F))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[s.rng.IntN(3)]
		}
	}
	return a
}

// ids are integers in [0, n).
func (s source) ids(n int, dims ...int) ref.Array {
	a := ref.New(shape.I32(dims...))
	for i := range a.I {
		a.I[i] = int32(s.rng.IntN(n))
	}
	return a
}

func (s source) bool(name string) bool { return rapid.Bool().Draw(s.t, name) }
