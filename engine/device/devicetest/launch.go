package devicetest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func testLaunch(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x, w, c := b.Input("x", shape.F32(2, 2)), b.Input("w", shape.F32(2, 3)), b.Input("c", shape.F32(3))
			h := ops.Add(b, ops.MatMulOf(b, ops.Relu(b, x), w, false, false), c)
			return []*graph.Value{ops.Relu(b, h), h}
		})
		x := r.compile(g, device.CompileOptions{})
		if m := x.Memory(); m.Arguments != 16+24+12 || m.Outputs != 48 || m.Aliased != 0 || m.Temporary < 16 || m.Peak() != m.Arguments+m.Outputs+m.Temporary {
			t.Errorf("memory %+v", m)
		}
		if x.Graph() != g || x.Signature() == "" {
			t.Errorf("graph %p, signature %q", x.Graph(), x.Signature())
		}
		in := []device.Buffer{r.upload([]float32{1, 2, 3, 4}, 2, 2), r.upload([]float32{1, 0, -1, 0, 1, -1}, 2, 3), r.upload([]float32{0, 10, 0}, 3)}
		out := r.allocAll(graph.Metas(g.Outputs))
		for range 2 {
			r.launch(x, in, out)
			r.expect(out[0], 1, 12, 0, 3, 14, 0)
			r.expect(out[1], 1, 12, -3, 3, 14, -7)
		}
		r.sync(r.s)
		if n := r.d.Stats().Launches; n != 2 {
			t.Errorf("%d launches were counted, expected 2", n)
		}
		r.drop(append(in, out...)...)
	})
}

func testLaunchMistakes(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Count: 2}, func(r *rig) {
		x := r.compile(affine(t, 2), device.CompileOptions{})
		there, err := r.others[0].Compile(affine(t, 2), device.CompileOptions{})
		r.ok(err)
		a, b, c := r.upload([]float32{1, 2}, 2), r.alloc(shape.F32(2)), r.alloc(shape.F32(1, 2))
		far, ints := r.allocOn(r.theirs[0], shape.F32(2)), r.alloc(shape.I32(2))
		bad := func(x device.Executable, in, out device.Buffer, words ...string) {
			t.Helper()
			_, err := r.queue(r.s, x, []device.Buffer{in}, []device.Buffer{out})
			r.fails(err, nil, words...)
		}
		bad(there, a, b)
		bad(nil, a, b)
		bad(x, a, c, "f32[1,2]", "f32[2]")
		bad(x, ints, b, "input 0", "i32[2]")
		bad(x, a, nil, "output 0")
		bad(x, nil, b, "input 0")
		bad(x, far, b, string(r.others[0].ID()))
		bad(x, a, a, "output 0")
		_, err = r.queue(r.s, x, nil, []device.Buffer{b})
		r.fails(err, nil)
		r.launch(x, []device.Buffer{a}, []device.Buffer{b}) // none of this has failed the stream
		r.expect(b, 3, 5)
		r.sync(r.s)
		r.drop(a, b, c, far, ints)
	})
}

func testCompileCache(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		a := r.compile(affine(t, 2), device.CompileOptions{})
		b := r.compile(affine(t, 2), device.CompileOptions{})
		c := r.compile(affine(t, 3), device.CompileOptions{})
		d := r.compile(affine(t, 2), device.CompileOptions{Alias: []int{0}})
		e := r.compile(affine(t, 2), device.CompileOptions{CheckFinite: true})
		if a != b || a.Signature() != b.Signature() {
			t.Error("equal graphs were compiled twice")
		}
		for _, x := range []device.Executable{c, d, e} {
			if x == a || x.Signature() == a.Signature() {
				t.Error("different work shares an executable")
			}
		}
		if s := r.d.Stats(); s.CompileHits != 1 || s.CompileMisses != 4 || s.Executables != 4 {
			t.Errorf("%d hits, %d misses and %d executables, expected 1, 4 and 4", s.CompileHits, s.CompileMisses, s.Executables)
		}
		for _, x := range []device.Executable{a, b, c, d, e} {
			x.Release()
		}
		if s := r.d.Stats(); s.Executables != 0 {
			t.Errorf("%d executables are left, all of which were released", s.Executables)
		}
		a = r.compile(affine(t, 2), device.CompileOptions{})
		a.Release()
		if s := r.d.Stats(); s.CompileMisses != 5 {
			t.Errorf("%d misses after a graph was compiled again, expected 5", s.CompileMisses)
		}
	})
}

// testKeep checks that the executables used last are kept, and that Find tells where
// Compile gets each.
func testKeep(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Keep: 2}, func(r *rig) {
		var from []device.Source
		told := device.CompileOptions{From: func(s device.Source) { from = append(from, s) }}
		var list []device.Segment
		for _, n := range []int{2, 3, 4, 2} {
			list = append(list, device.Segment{Graph: affine(t, n), Options: told})
		}
		promised, err := device.Find(r.d, list)
		r.ok(err)
		for _, s := range list {
			defer r.compile(s.Graph, told).Release()
		}
		if !slices.Equal(from, promised) || from[3] != device.InMemory {
			t.Errorf("executables from %v, and %v were promised", from, promised)
		}
		for _, n := range []int{5, 6, 7, 6, 5} { // 5 makes room for 7, and 7 for 5
			r.compile(affine(t, n), told).Release()
		}
		if s := r.d.Stats(); s.Executables != 5 || s.CompileMisses != 7 || s.CompileHits != 2 {
			t.Errorf("%d executables, %d misses and %d hits: expected 3 in use and 2 kept, 7 and 2", s.Executables, s.CompileMisses, s.CompileHits)
		}
	})
}

// strange is an op that no device knows.
type strange struct{ ops.Affine }

func (strange) Kind() string { return "strange" }

func testCompileMistakes(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{MemoryBytes: 1 << 16}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{b.One(strange{}, b.Input("x", shape.F32(2)))}
		})
		if r.computes() {
			if err := r.d.Supports(g.Nodes[0]); !errors.Is(err, device.ErrUnsupported) {
				t.Fatalf("Supports takes the op %q, for which there is no kernel, with %v: refuse it with device.ErrUnsupported, as a bind that has no kernel for an op does", "strange", err)
			}
			_, err := r.d.Estimate(g, device.CompileOptions{})
			r.fails(err, device.ErrUnsupported, string(r.d.ID()), "strange")
			_, err = r.d.Compile(g, device.CompileOptions{})
			r.fails(err, device.ErrUnsupported, string(r.d.ID()), "strange")
		}
		good := affine(t, 2)
		r.ok(r.d.Supports(good.Nodes[0]))
		for _, alias := range [][]int{{1}, {0, 0}} {
			_, err := r.d.Compile(good, device.CompileOptions{Alias: alias})
			r.fails(err, nil, "BUG")
		}
		cut := *good
		cut.Inputs = nil
		_, err := r.d.Compile(&cut, device.CompileOptions{})
		r.fails(err, nil, "BUG", "x f32[2]")
		large := Segment(t, func(b *graph.Builder) []*graph.Value { // its temporary is twice the budget
			x := b.Input("x", shape.F32(1<<15))
			return []*graph.Value{ops.Sum(b, ops.Exp(b, x), false, 0)}
		})
		_, err = r.s.Alloc(scratchFor(r.compile(large, device.CompileOptions{})), device.Scratch)
		r.fails(err, device.ErrOutOfMemory, "128.0 KiB", "64.0 KiB")
		if live := r.d.Stats().Live; live != 0 {
			t.Errorf("%d bytes are live after the failure", live)
		}
	})
}

func testDonation(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x, y := b.Input("x", shape.F32(2)), b.Input("y", shape.F32(2))
			return []*graph.Value{ops.Add(b, x, y)}
		})
		x := r.compile(g, device.CompileOptions{Alias: []int{0}})
		if m := x.Memory(); m.Aliased != 8 || m.Peak() != 16+m.Temporary {
			t.Errorf("memory %+v", m)
		}
		a, b, c := r.upload([]float32{1, 2}, 2), r.upload([]float32{10, 20}, 2), r.alloc(shape.F32(2))
		bad := func(out device.Buffer, in ...device.Buffer) {
			t.Helper()
			_, err := r.queue(r.s, x, in, []device.Buffer{out})
			r.fails(err, nil)
		}
		bad(c, a, b)
		bad(b, a, b)
		bad(a, a, a)
		r.launch(x, []device.Buffer{a, b}, []device.Buffer{a})
		r.expect(a, 11, 22)
		r.launch(x, []device.Buffer{a, b}, []device.Buffer{a})
		r.expect(a, 21, 42)
		gate := newGate()
		r.ok(r.s.WaitFor(gate.event()))
		r.launch(x, []device.Buffer{a, b}, []device.Buffer{nil}) // nobody wants the output
		r.fails(a.Free(), device.ErrDonated)
		if live := r.d.Stats().LiveBy[device.Activation]; live != 2*64 {
			t.Errorf("%d bytes are live: a donated buffer was not given back", live)
		}
		_, err := r.queue(r.s, x, []device.Buffer{a, b}, []device.Buffer{nil})
		r.fails(err, device.ErrDonated)
		d := r.upload([]float32{7, 8}, 2) // must not get the donated memory yet
		gate.open(nil)
		r.expect(d, 7, 8)
		r.sync(r.s)
		r.drop(b, c, d)
	})
}

// testDonationOrder donates inputs that other nodes read too, not only the node
// whose output takes them over.
func testDonationOrder(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		// new is computed first, but w is read after that: the reader must be
		// moved before it.
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			w, d := b.Input("w", shape.F32(2)), b.Input("d", shape.F32(2))
			next := ops.Sub(b, w, d)
			return []*graph.Value{ops.ScaleBy(b, ops.ReshapeTo(b, w, 1, 2), 10), next}
		})
		g.Nodes[0], g.Nodes[len(g.Nodes)-1] = g.Nodes[len(g.Nodes)-1], g.Nodes[0]
		sortByNeed(g)
		x := r.compile(g, device.CompileOptions{Alias: []int{-1, 0}})
		w, d, old := r.upload([]float32{5, 6}, 2), r.upload([]float32{1, 1}, 2), r.alloc(shape.F32(1, 2))
		r.launch(x, []device.Buffer{w, d}, []device.Buffer{old, w})
		r.expect(old, 50, 60)
		r.expect(w, 4, 5)

		// The node reads its input in a way that cannot work in place.
		g = Segment(t, func(b *graph.Builder) []*graph.Value {
			m := b.Input("m", shape.F32(2, 2))
			return []*graph.Value{ops.MatMulOf(b, m, m, false, false)}
		})
		x = r.compile(g, device.CompileOptions{Alias: []int{0}})
		m := r.upload([]float32{1, 2, 3, 4}, 2, 2)
		r.launch(x, []device.Buffer{m}, []device.Buffer{m})
		r.expect(m, 7, 10, 15, 22)

		// The input is needed when the output is known: no order works.
		g = Segment(t, func(b *graph.Builder) []*graph.Value {
			w := b.Input("w", shape.F32(2, 2))
			next := ops.ScaleBy(b, w, 2)
			return []*graph.Value{next, ops.MatMulOf(b, next, w, false, false)}
		})
		_, err := r.d.Compile(g, device.CompileOptions{Alias: []int{0, -1}})
		r.fails(err, nil, "BUG", "input w")
		r.sync(r.s)
		r.drop(w, d, old, m)
	})
}

// testScratch launches with scratch of exactly the bytes that are needed, of more,
// and of another place each time, between buffers that must stay as they are.
func testScratch(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		const n = 256
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", shape.F32(n))
			y := ops.ReshapeTo(b, ops.TransposeTo(b, ops.ReshapeTo(b, ops.AddConst(b, x, 1), 16, 16), 1, 0), n)
			return []*graph.Value{ops.MatMulOf(b, ops.ReshapeTo(b, y, 16, 16), ops.ReshapeTo(b, ops.Relu(b, y), 16, 16), false, false)}
		})
		x := r.compile(g, device.CompileOptions{})
		a, b := r.upload(ramp(n, 1), n), r.alloc(shape.F32(16, 16))
		need := int(x.Memory().Temporary)
		if need < 4*n {
			t.Fatalf("%d bytes of temporaries", need)
		}
		r.launch(x, []device.Buffer{a}, []device.Buffer{b})
		var want []float32
		if r.computes() {
			want = r.get(b)
		}
		for _, bytes := range []int{need, need + 1, 3 * need} {
			before, scratch, behind := r.upload(ramp(n, 2), n), r.alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(bytes)}), r.upload(ramp(n, 3), n)
			_, err := r.s.Launch(x, []device.Buffer{a}, []device.Buffer{b}, scratch)
			r.ok(err)
			r.expect(b, want...)
			r.expect(before, ramp(n, 2)...)
			r.expect(behind, ramp(n, 3)...)
			r.drop(before, scratch)
			defer r.drop(behind)
		}
		less, gone := r.alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(need - 1)}), r.alloc(scratchFor(x))
		r.drop(gone)
		for _, c := range []struct {
			scratch device.Buffer
			word    string
		}{{nil, "scratch"}, {less, "scratch"}, {gone, "deleted"}} {
			_, err := r.s.Launch(x, []device.Buffer{a}, []device.Buffer{b}, c.scratch)
			r.fails(err, nil, c.word)
		}
		r.drop(less, a, b)
	})
}

// sortByNeed puts nodes behind those that they read. Among nodes that are ready
// it takes the last built first: the opposite of the order in which they were
// built.
func sortByNeed(g *graph.Graph) {
	known := map[*graph.Value]bool{}
	for _, v := range g.Inputs {
		known[v] = true
	}
	var sorted []*graph.Node
	rest := append([]*graph.Node(nil), g.Nodes...)
	for len(rest) > 0 {
		for i := len(rest) - 1; i >= 0; i-- {
			ready := true
			for _, v := range rest[i].In {
				ready = ready && known[v]
			}
			if !ready {
				continue
			}
			for _, v := range rest[i].Out {
				known[v] = true
			}
			sorted = append(sorted, rest[i])
			rest = append(rest[:i], rest[i+1:]...)
			break
		}
	}
	g.Nodes = sorted
}

// testUpdate runs an optimizer's segment: several variables are overwritten in
// place, one of them, the step counter, read by all.
func testUpdate(t *testing.T, open Opener) {
	const n = 5000
	with(t, open, device.OpenOptions{}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			step, lr := b.Input("step", shape.I32()), b.Input("lr", shape.F32())
			next := b.One(ops.Increment{}, step)
			w, dw, v := b.Input("w", shape.F32(n)), b.Input("dw", shape.F32(n)), b.Input("v", shape.F32(n))
			outs := b.Apply(ops.SGD{Momentum: 0.5, Scale: 1}, w, dw, lr, v)
			ring := b.One(ops.RingWrite{Scale: 1}, b.Input("ring", shape.F32(4)), step, lr)
			return []*graph.Value{next, outs[0], outs[1], ring}
		})
		// inputs: step lr w dw v ring
		x := r.compile(g, device.CompileOptions{Alias: []int{0, 2, 4, 5}})
		if m := x.Memory(); m.Aliased != m.Outputs || m.Temporary >= 4*n {
			t.Errorf("memory %+v: an update in place needs no copy of the weights", m)
		}
		step := r.alloc(shape.I32())
		r.putBytes(step, shape.Bytes([]int32{1}))
		lr, ring := r.upload([]float32{0.5}), r.upload([]float32{9, 9, 9, 9}, 4)
		w, dw, v := r.upload(ramp(n, 1), n), r.upload(ramp(n, 2), n), r.upload(ramp(n, 0), n)
		in := []device.Buffer{step, lr, w, dw, v, ring}
		for range 2 {
			r.launch(x, in, []device.Buffer{step, w, v, ring})
		}
		// v is 2i, then 3i; w loses half of each
		r.expect(v, ramp(n, 3)...)
		r.expect(w, ramp(n, 1-2.5)...)
		r.expect(ring, 9, 0.5, 0.5, 9)
		r.sync(r.s)
		r.drop(in...)
	})
}

func testViews(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", shape.F32(2, 3))
			flat := ops.ReshapeTo(b, x, 6)
			y := ops.Neg(b, flat)             // in memory of its own: x is an input
			back := ops.ReshapeTo(b, y, 3, 2) // a view of y
			z := ops.Relu(b, back)            // must not overwrite y, which is read again
			sum := ops.Add(b, ops.ReshapeTo(b, z, 6), y)
			return []*graph.Value{ops.ReshapeTo(b, sum, 2, 3), back, flat, y, ops.ReshapeTo(b, back, 1, 6)}
		})
		x := r.compile(g, device.CompileOptions{})
		in := r.upload([]float32{1, -2, 3, -4, 5, -6}, 2, 3)
		out := r.allocAll(graph.Metas(g.Outputs))
		for range 2 {
			r.launch(x, []device.Buffer{in}, out)
			r.expect(out[0], -1, 4, -3, 8, -5, 12)
			r.expect(out[1], -1, 2, -3, 4, -5, 6)
			r.expect(out[2], 1, -2, 3, -4, 5, -6)
			r.expect(out[3], -1, 2, -3, 4, -5, 6)
			r.expect(out[4], -1, 2, -3, 4, -5, 6)
			r.expect(in, 1, -2, 3, -4, 5, -6)
		}
		r.sync(r.s)
		r.drop(append(out, in)...)
	})
}

func testPassThrough(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x, y := b.Input("x", shape.F32(2)), b.Input("y", shape.F32(2))
			s := ops.Add(b, x, y)
			return []*graph.Value{x, s, s, y, x}
		})
		x := r.compile(g, device.CompileOptions{Alias: []int{-1, -1, -1, 1, 0}})
		a, b := r.upload([]float32{1, 2}, 2), r.upload([]float32{3, 5}, 2)
		out := append(r.allocAll(graph.Metas(g.Outputs[:3])), b, a)
		r.launch(x, []device.Buffer{a, b}, out)
		r.expect(out[0], 1, 2)
		r.expect(out[1], 4, 7)
		r.expect(out[2], 4, 7)
		r.expect(b, 3, 5)
		r.expect(a, 1, 2)
		r.sync(r.s)
		r.drop(out...)
	})
}

func testEmpty(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", shape.F32(0, 3))
			y := ops.Relu(b, ops.Exp(b, x))
			return []*graph.Value{y, ops.ReshapeTo(b, y, 3, 0), ops.Sum(b, y, false, 0), x}
		})
		x := r.compile(g, device.CompileOptions{})
		in := r.upload(nil, 0, 3)
		out := r.allocAll(graph.Metas(g.Outputs))
		r.launch(x, []device.Buffer{in}, out)
		r.expect(out[0])
		r.expect(out[2], 0, 0, 0)
		r.sync(r.s)
		r.drop(append(out, in)...)
		none := Segment(t, func(b *graph.Builder) []*graph.Value { return nil })
		r.ok(r.wait(r.launch(r.compile(none, device.CompileOptions{}), nil, nil)))
	})
}

func testCheckFinite(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		if !r.computes() {
			return
		}
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", shape.F32(3))
			defer b.In(&graph.Layer{Index: 2, Type: "log", Name: "l", Block: "l"})()
			return []*graph.Value{ops.AddConst(b, ops.Log(b, x), 1)}
		})
		x := r.compile(g, device.CompileOptions{CheckFinite: true})
		a, b := r.upload([]float32{1, 1, 0}, 3), r.alloc(shape.F32(3))
		r.sync(r.s)
		s := r.stream("fails")
		e, err := r.queue(s, x, []device.Buffer{a}, []device.Buffer{b})
		r.ok(err)
		r.fails(r.wait(e), device.ErrNonFinite, `layer 2 (log "l")`, "element 2", g.Nodes[0].Out[0].Name)
		r.ok(s.Close())
		plain := r.compile(g, device.CompileOptions{})
		r.launch(plain, []device.Buffer{a}, []device.Buffer{b})
		if got := r.get(b); !math.IsInf(float64(got[2]), -1) {
			t.Errorf("log(0) is %v", got[2])
		}
		branch := Segment(t, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", shape.F32(3))
			return ops.Cond(b, ops.Const(b, shape.F32(), 0),
				func(b *graph.Builder) []*graph.Value { return []*graph.Value{ops.Log(b, x)} },
				func(*graph.Builder) []*graph.Value { return []*graph.Value{x} })
		})
		unused := r.compile(branch, device.CompileOptions{CheckFinite: true})
		r.launch(unused, []device.Buffer{a}, []device.Buffer{b})
		if got := r.get(b); got[2] != 0 {
			t.Errorf("where log(0) is not chosen, the result is %v", got[2])
		}
		r.drop(a, b)
	})
}
