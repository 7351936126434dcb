package outside_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
)

// The gradients of the ops, and of the loss that is made of ops, against central
// differences.
func TestGradientsAgreeWithDifferences(t *testing.T) {
	for name, f := range map[string]func(b *graph.Builder, x *graph.Value) *graph.Value{
		"swish2": func(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Swish{1.5}, x) },
		"roll":   func(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Roll{2}, x) },
	} {
		const h = 1.0 / 64
		b := graph.NewBuilder(name, 1)
		x := b.Var("x", shape.F32(2, 3), graph.Parameter, graph.Init{})
		w := b.Input("w", x.Meta)
		loss := ops.SumToShape(b, ops.Mul(b, f(b, x), w), shape.Of())
		b.Output("loss", loss)
		b.Output("slope", b.Gradients(loss, ops.Const(b, shape.F32(), 1), []*graph.Value{x}, ops.AddOp)[x][0])
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		at := []float64{-2, -0.5, 0, 0.25, 1, 3}
		eval := func(at []float64) map[*graph.Value]ref.Array {
			vals, err := ref.Eval(g, map[*graph.Value]ref.Array{x: ref.Floats(at, 2, 3), w: ref.Floats([]float64{1, -1, 2, 0.5, 3, -2}, 2, 3)})
			if err != nil {
				t.Fatal(err)
			}
			return vals
		}
		slope := eval(at)[g.Outputs[1]].F
		for i := range at {
			up, down := slices.Clone(at), slices.Clone(at)
			up[i] += h
			down[i] -= h
			want := (eval(up)[loss].F[0] - eval(down)[loss].F[0]) / (2 * h)
			if math.Abs(slope[i]-want) > 1e-3 {
				t.Errorf("%s: the slope at %v is %v, by differences %v", name, at[i], slope[i], want)
			}
		}
	}
}

// An elementwise op is no pass of its own: it goes on with the tiles of the product
// before it, and its gradient with those of the product after it.
func TestElementwiseOpsFuse(t *testing.T) {
	s := models.Spec{Input: shape.F32(8), Target: shape.F32(4), Loss: "mse", Layers: models.Stack{
		models.Named{Name: "a", Layer: models.Dense{Units: 16}}, SwishKeys{Beta: 2}, models.Named{Name: "b", Layer: models.Dense{Units: 4}},
	}}
	g, err := models.Predict(s, models.Size{Microbatch: 32})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range fuse.Cut(g, nil).Clusters {
		names = append(names, c.Name())
	}
	if got := strings.Join(names, " "); got != "matmul+add+swish2 matmul+add" {
		t.Errorf("the clusters are %s", got)
	}
}

// own is a graph of an op that is computed as a whole and of elementwise ones.
func own(t *testing.T) *graph.Graph {
	b := graph.NewBuilder("own", 1)
	x := b.Input("x", shape.F32(300, 70))
	b.Output("y", ops.Add(b, b.One(Swish{0.5}, b.One(Roll{3}, x)), b.One(SwishGrad{0.5}, x, x)))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestKernelsOnDevices(t *testing.T) {
	for _, isa := range []string{"generic", ""} { // the CPU's best
		t.Setenv("BERTH_CPU", isa)
		g := own(t)
		devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 3, MemoryBytes: 1 << 22})
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float64, g.Inputs[0].Meta.Elems())
		for i := range x {
			x[i] = float64(i%101)/10 - 5
		}
		vals, err := ref.Eval(g, map[*graph.Value]ref.Array{g.Inputs[0]: ref.Floats(x, 300, 70)})
		if err != nil {
			t.Fatal(err)
		}
		got, allocs := launch(t, devs[0], g, x)
		for i, want := range vals[g.Outputs[0]].F {
			if math.Abs(float64(got[i])-want) > 1e-5 {
				t.Fatalf("%q: element %d is %v, want %v", isa, i, got[i], want)
			}
		}
		if allocs > 0 {
			t.Errorf("%q: %v allocations a launch", isa, allocs)
		}
		if err := devs[0].Close(); err != nil {
			t.Error(err)
		}
	}
}

// launch gives the output of a graph, and the allocations of a launch.
func launch(t *testing.T, d device.Device, g *graph.Graph, x []float64) (out []float32, allocs float64) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	exe, err := d.Compile(g, device.CompileOptions{})
	must(err)
	s, err := d.NewStream("main")
	must(err)
	in, err := s.Alloc(g.Inputs[0].Meta, device.Input)
	must(err)
	y, err := s.Alloc(g.Outputs[0].Meta, device.Activation)
	must(err)
	temps, err := s.Alloc(shape.F32(max(1, int(exe.Memory().Temporary)/4)), device.Scratch)
	must(err)
	h, err := d.AllocHost(in.Meta().Bytes())
	must(err)
	for i, f := range x {
		shape.View[float32](h.Bytes())[i] = float32(f)
	}
	must(s.CopyIn(in, h))
	ins, outs := []device.Buffer{in}, []device.Buffer{y}
	once := func() {
		e, err := s.Launch(exe, ins, outs, temps)
		if err == nil {
			err = e.Wait(t.Context())
		}
		must(err)
	}
	once()
	allocs = testing.AllocsPerRun(20, once)
	done, err := s.CopyOut(h, y)
	must(err)
	must(done.Wait(t.Context()))
	out = slices.Clone(shape.View[float32](h.Bytes()))
	for _, err := range []error{in.Free(done), y.Free(done), temps.Free(done), h.Free(), s.Close()} {
		must(err)
	}
	return out, allocs
}

func TestOpsInEagerCalls(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := eager.New(devs, eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := c.FromHost(tensor.New(tensor.WithShape(1, 3), tensor.WithBacking([]float32{1, -2, 3})), "")
	y := c.One(Roll{1}, c.One(Sign{}, x))
	d, err := y.ToHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Data().([]float32); !slices.Equal(got, []float32{1, 1, -1}) {
		t.Errorf("got %v", got)
	}
	for _, err := range []error{y.Release(), c.Close(), devs[0].Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

type bare struct{ Sign }

func (bare) Kind() string { return "bare" }

// An op without a version, and one whose tensors are not elementwise, are refused where
// the model is built or planned.
func TestOpsThatCannotRun(t *testing.T) {
	b := graph.NewBuilder("g", 1)
	n := b.One(bare{}, b.Input("x", shape.F32(3))).Node
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer devs[0].Close()
	if err := devs[0].Supports(n); err != nil {
		t.Error(err)
	}
	n.In[0].Meta = shape.F32(1) // as a rule that stretches would allow
	if err := devs[0].Supports(n); err == nil || !strings.Contains(err.Error(), "the op bare has a method Map, which takes one or two float32 inputs of its output's shape") {
		t.Errorf("got %v", err)
	}
	for want, op := range map[string]graph.Op{
		"it must have a method Compute or a method Map": ops.Affine{},
		"field F: it is a func()":                       opaque{},
		"the name exists already":                       relu{},
		"has a method String, which may hide":           silent{},
	} {
		func() {
			defer func() {
				if r, _ := recover().(string); !strings.Contains(r, want) {
					t.Errorf("got %v, expected %s", r, want)
				}
			}()
			ops.Register(1, op)
		}()
	}
}

type opaque struct {
	Sign
	F func()
}

func (opaque) Kind() string { return "opaque" }

type relu struct{ Sign }

func (relu) Kind() string { return "relu" }

// silent prints alike with every number.
type silent struct {
	Sign
	By int
}

func (silent) Kind() string { return "silent" }

func (silent) String() string { return "silent" }
