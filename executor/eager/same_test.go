package eager

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// side is the size of the random programs' square matrices: with edges for
// vector kernels.
const side = 19

// program is a random list of ops over square matrices.
type program struct {
	inputs int
	ops    []graph.Op
	args   [][]int // per op: which earlier values
}

func drawProgram(t *rapid.T) program {
	unaries := []graph.Op{ops.Unary{Fn: "tanh"}, ops.Unary{Fn: "gelu_tanh"}, ops.Unary{Fn: "neg"}, ops.Affine{Scale: 0.5, Shift: 0.25},
		ops.Softmax{}, ops.Transpose{Perm: []int{1, 0}}, ops.LogSoftmax{}}
	binaries := []graph.Op{ops.AddOp, ops.Binary{Fn: "sub"}, ops.Binary{Fn: "mul"}, ops.MatMul{}, ops.MatMul{TransA: true}, ops.Lerp{T: 0.3}}
	p := program{inputs: rapid.IntRange(1, 3).Draw(t, "inputs")}
	for i := range rapid.IntRange(1, 12).Draw(t, "ops") {
		from, arity := unaries, 1
		if rapid.Bool().Draw(t, "binary") {
			from, arity = binaries, 2
		}
		p.ops = append(p.ops, rapid.SampledFrom(from).Draw(t, "op"))
		p.args = append(p.args, rapid.SliceOfN(rapid.IntRange(0, p.inputs+i-1), arity, arity).Draw(t, "args"))
	}
	return p
}

// graph is the program as one graph of which the last value is the output.
func (p program) graph(t *rapid.T) *graph.Graph {
	b := graph.NewBuilder("whole", 1)
	var vs []*graph.Value
	for i := range p.inputs {
		vs = append(vs, b.Input(fmt.Sprintf("in%d", i), shape.F32(side, side)))
	}
	for i, op := range p.ops {
		in := make([]*graph.Value, len(p.args[i]))
		for j, a := range p.args[i] {
			in[j] = vs[a]
		}
		vs = append(vs, b.One(op, in...))
	}
	b.Output("last", vs[len(vs)-1])
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// whole runs the program as one compiled graph.
func (p program) whole(t *rapid.T, d device.Device, inputs [][]float32) []float32 {
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	exe, err := d.Compile(p.graph(t), device.CompileOptions{})
	ok(err)
	s, err := d.NewStream("whole")
	ok(err)
	hb, err := d.AllocHost(side * side * 4)
	ok(err)
	var bufs []device.Buffer
	for i := range p.inputs + 1 {
		b, err := s.Alloc(shape.F32(side, side), device.Input)
		ok(err)
		bufs = append(bufs, b)
		if i < p.inputs {
			copy(hb.Bytes(), shape.Bytes(inputs[i]))
			ok(s.CopyIn(b, hb))
			ok(s.Record().Wait(bg))
		}
	}
	scratch, err := s.Alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(exe.Memory().Temporary))}, device.Scratch)
	ok(err)
	_, err = s.Launch(exe, bufs[:p.inputs], bufs[p.inputs:], scratch)
	ok(err)
	done, err := s.CopyOut(hb, bufs[p.inputs])
	ok(err)
	ok(done.Wait(bg))
	got := slices.Clone(shape.View[float32](hb.Bytes()))
	for _, b := range append(bufs, scratch) {
		ok(b.Free(done))
	}
	ok(hb.Free())
	ok(s.Close())
	return got
}

// eager runs the program op by op; the last use of each value consumes it.
func (p program) eager(r *rig, inputs [][]float32) []Tensor {
	var vs []Tensor
	for _, data := range inputs {
		vs = append(vs, r.floats(data, side, side))
	}
	uses := make([]int, p.inputs+len(p.ops))
	for _, in := range p.args {
		for _, a := range in {
			uses[a]++
		}
	}
	for i, op := range p.ops {
		args := make([]Tensor, len(p.args[i]))
		for j, a := range p.args[i] {
			args[j] = vs[a]
			if uses[a]--; uses[a] > 0 {
				args[j].Ref()
			}
		}
		vs = append(vs, r.One(op, args...))
	}
	return vs
}

// TestSameBitsAsGraph: op by op, with donation wherever possible, gives the bits
// of the graph.
func TestSameBitsAsGraph(t *testing.T) {
	now, queued := open(t, 1, ContextOptions{}), open(t, 1, ContextOptions{}).queued()
	rapid.Check(t, func(t *rapid.T) {
		r := now
		if rapid.Bool().Draw(t, "queued") {
			r = queued
		}
		p := drawProgram(t)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		inputs := make([][]float32, p.inputs)
		for i := range inputs {
			inputs[i] = make([]float32, side*side)
			for j := range inputs[i] {
				inputs[i][j] = float32(rnd.NormFloat64())
			}
		}
		vs := p.eager(r, inputs)
		last := vs[len(vs)-1]
		got, err := last.ToHost(bg)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range vs {
			used := slices.ContainsFunc(p.args, func(in []int) bool { return slices.Contains(in, i) })
			if err := v.Release(); (err != nil) != used {
				t.Fatalf("value %d, used %v: %v", i, used, err)
			}
		}
		if want := p.whole(t, r.devs[0], inputs); !slices.Equal(bits(got.Data().([]float32)), bits(want)) {
			t.Fatal("op by op and the graph differ")
		}
	})
}

func bits(f []float32) []int32 { return shape.View[int32](shape.Bytes(f)) }

// TestHammer runs goroutines on one context that share a tensor. Some calls fail;
// the others must not.
func TestHammer(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	const goroutines, rounds = 8, 60
	shared := r.floats([]float32{1, 2, 3, 4}, 2, 2)
	elsewhere := shared.CopyTo("cpu:1")
	var failures atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range rounds {
				x := r.One(ops.AddOp, shared.Ref(), r.floats([]float32{float32(g), float32(i)}, 2))
				bad := r.badGather()
				worse := r.One(ops.AddOp, bad, x.Ref())
				y := r.One(ops.MatMul{}, x, shared.Ref())
				z := r.One(ops.AddOp, y.CopyTo("cpu:1"), elsewhere.Ref())
				_ = y.Release()
				a, b := float32(g), float32(i)
				want := []float32{1 + (1 + a) + 3*(2+b), 2 + 2*(1+a) + 4*(2+b), 3 + (3 + a) + 3*(4+b), 4 + 2*(3+a) + 4*(4+b)}
				d, err := z.ToHost(bg)
				if err != nil || !slices.Equal(d.Data().([]float32), want) {
					t.Errorf("goroutine %d round %d: %v, expected %v (%v)", g, i, d, want, err)
				}
				if worse.Wait(bg) != nil {
					failures.Add(1)
				}
				_, _ = z.Release(), worse.Release()
			}
		})
	}
	wg.Wait()
	if n := failures.Load(); n != goroutines*rounds || len(r.told()) != goroutines*rounds {
		t.Errorf("%d failures, %d diagnostics, expected %d", n, len(r.told()), goroutines*rounds)
		for _, e := range r.told() {
			if e.Op != "gather" {
				t.Error(e)
			}
		}
	}
	_, _ = shared.Release(), elsewhere.Release()
}

// TestHammerCancel cancels and restarts while others call, chain and release.
func TestHammerCancel(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	stop := make(chan struct{})
	var callers, canceler sync.WaitGroup
	canceler.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.Cancel(nil)
				r.Restart()
				time.Sleep(100 * time.Microsecond) // some programs are to run
			}
		}
	})
	var ran atomic.Int64
	for range 4 {
		callers.Go(func() {
			for range 100 {
				x := r.floats([]float32{1, 2}, 2)
				for range 5 {
					x = r.One(ops.Affine{Scale: 1, Shift: 1}, x)
				}
				if d, err := x.Ref().ToHost(bg); err == nil {
					ran.Add(1)
					if got := d.Data().([]float32); got[0] != 6 || got[1] != 7 {
						t.Errorf("%v", got)
					}
				}
				_, _ = x.Release(), x.Release()
				_ = r.Call(nil, func([]*tensor.Dense) error { return nil }, r.floats([]float32{1}, 1))
			}
		})
	}
	callers.Wait()
	close(stop)
	canceler.Wait()
	r.Restart()
	r.expect(r.floats([]float32{4}, 1), 4)
	t.Logf("%d of 400 programs were not canceled", ran.Load())
}

// BenchmarkExecute measures a call, in a chain of ops on 16 floats.
func BenchmarkExecute(b *testing.B) {
	for _, c := range []struct {
		name string
		op   graph.Op
		step func(r *rig, x, y Tensor, op graph.Op) Tensor
	}{
		{"donating", ops.Affine{Scale: 1}, func(r *rig, x, _ Tensor, op graph.Op) Tensor { return r.One(op, x) }},
		{"binary", ops.AddOp, func(r *rig, x, y Tensor, op graph.Op) Tensor { return r.One(op, x, y.Ref()) }},
		{"matmul", ops.MatMul{}, func(r *rig, x, y Tensor, op graph.Op) Tensor { return r.One(op, x, y.Ref()) }},
		{"independent", ops.AddOp, func(r *rig, x, y Tensor, op graph.Op) Tensor {
			_ = r.One(op, y.Ref(), y.Ref()).Release()
			return x
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := open(b, 1, ContextOptions{})
			x, y := r.floats(make([]float32, 16), 4, 4), r.floats(make([]float32, 16), 4, 4)
			b.ReportAllocs()
			for b.Loop() {
				x = c.step(r, x, y, c.op)
			}
			if err := x.Wait(bg); err != nil {
				b.Fatal(err)
			}
			_, _ = x.Release(), y.Release()
		})
	}
}

// BenchmarkPressure is a call on small tensors where larger ones have left a full device,
// and one on tensors that do not fit, each of which leaves and comes back.
func BenchmarkPressure(b *testing.B) {
	r := open(b, 1, ContextOptions{}) // 4 MiB
	big := Freeze(ops.Fill{Meta: shape.F32(1 << 18), Value: 1})
	var held []Tensor
	for range 6 {
		held = append(held, r.One(big))
	}
	if err := held[5].Wait(bg); err != nil {
		b.Fatal(err)
	}
	x, y := r.floats(make([]float32, 16), 4, 4), r.floats(make([]float32, 16), 4, 4)
	b.Run("small", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x = r.One(ops.AddOp, x, y.Ref())
		}
	})
	b.Run("spilling", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(1 << 20)
		for i := 0; b.Loop(); i++ {
			z := r.One(ops.AddOp, held[i%6].Ref(), held[i%6].Ref())
			if err := z.Wait(bg); err != nil {
				b.Fatal(err)
			}
			_ = z.Release()
		}
	})
	for _, t := range append(held, x, y) {
		_ = t.Release()
	}
}

// BenchmarkRoundTrip is one call and the wait for it.
func BenchmarkRoundTrip(b *testing.B) {
	r := open(b, 1, ContextOptions{})
	x := r.floats(make([]float32, 16), 4, 4)
	b.ReportAllocs()
	for b.Loop() {
		x = r.One(ops.AddOp, x.Ref(), x)
		if err := x.Wait(bg); err != nil {
			b.Fatal(err)
		}
	}
	_ = x.Release()
}

// BenchmarkFromHost is a copy-in of 4 KiB through pinned memory.
func BenchmarkFromHost(b *testing.B) {
	r := open(b, 1, ContextOptions{})
	data := make([]float32, 1024)
	b.ReportAllocs()
	for b.Loop() {
		_ = r.floats(data, 1024).Release()
	}
}
