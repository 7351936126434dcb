package eager

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

func TestShapeErrorAtTheCall(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate() // nothing needs to run for the error to be known
	x, y := r.floats([]float32{1, 2}, 2), r.floats([]float32{1, 2, 3}, 3)
	z := r.One(ops.AddOp, x, y)
	fails(t, z.Err(), graph.ErrShape, "call_test.go:", "add: ", "do not broadcast")
	if !z.Done() || z.Device() != "" {
		t.Error("the handle of a failed call must be known to have failed")
	}
	// The arguments were consumed all the same, and the error goes on unchanged.
	fails(t, r.One(ops.Unary{Fn: "neg"}, x).Err(), ErrConsumed)
	if e := r.Execute(ops.AddOp, z, z)[1].Err(); e != z.Err() {
		t.Errorf("%v, expected %v", e, z.Err())
	}
	_, err := z.ToHost(bg)
	fails(t, err, graph.ErrShape)
	open()
	if d := r.told(); len(d) != 2 || d[0] != z.Err() {
		t.Errorf("diagnostics %v", d)
	}
	for _, bad := range []Tensor{
		r.One(ops.AddOp, Tensor{}, Tensor{}),
		r.FromHost(nil, ""),
		r.FromHost(tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1})), "cpu:9"),
		r.FromBytes(shape.F32(2), make([]byte, 7), ""),
		r.One(ops.Unary{Fn: "nothing"}),
	} {
		fails(t, bad.Err(), nil, "call_test.go:")
	}
}

// A call that is queued is one allocation.
func TestQueuedCallAllocatesOnce(t *testing.T) {
	r := open(t, 1, ContextOptions{}).queued()
	var add graph.Op = ops.AddOp
	x, y := r.floats([]float32{1}, 1), r.floats([]float32{0}, 1)
	const calls = 10000
	allocs := 0.0
	for range 2 { // the first time, there are ever more tensors
		allocs = testing.AllocsPerRun(calls, func() { y = r.One(add, y, x.Ref()) })
	}
	if allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
	r.expect(y, 2*(calls+1))
	r.expect(x, 1)
}

// An error says each thing once, with something to do.
func TestWordsOfErrors(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 1, 2)
	step := Compile("step", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{b.One(ops.MatMul{}, in[0], in[0])}
	})
	long := Compile("long", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return ops.While(b, 1<<40, in, nil, nil)
	})
	doubles := tensor.New(tensor.WithShape(2), tensor.WithBacking([]float64{1, 2}))
	for _, c := range []struct {
		err  error
		want string
	}{
		{r.One(ops.Unary{Fn: "rleu"}, x.Ref()).Err(), ": rleu: no unary function \"rleu\": use one of abs, exp, gelu_erf, "},
		{r.One(step, x.Ref()).Err(), ": step: matmul: input has 2 features, weight expects 1"},
		{r.One(long, x.Ref()).Err(), ": long: while: 1099511627776 iterations: give 0 to 16384"},
		{r.One(ops.BroadcastTo{Shape: shape.Of(1<<40, 1<<40, 2)}, x.Ref()).Err(), ": broadcast_to: shape [1099511627776,1099511627776,2] has too many elements"},
		{r.FromHost(doubles, "").Err(), ": from host: the elements of f64[2] are not float32 or int32, as ops take them: convert them first"},
		{r.One(ops.BroadcastTo{Shape: shape.Of(1<<20, 2)}, x).Wait(bg), "the activation buffer f32[1048576,2] needs 8.0 MiB; "},
	} {
		fails(t, c.err, nil, c.want)
		if name := strings.SplitN(c.err.Error(), ": ", 3)[1] + ": "; strings.Count(c.err.Error(), name) != 1 {
			t.Errorf("%v: names %q more than once", c.err, name)
		}
	}
}

func TestPoisonOnlyDependents(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate() // everything is queued before the failure is known
	x := r.floats([]float32{1, 2}, 1, 2)
	bad := r.badGather()
	child := r.One(ops.Unary{Fn: "neg"}, bad.Ref())
	mixed := r.One(ops.AddOp, child.Ref(), x.Ref())
	good := r.One(ops.AddOp, x.Ref(), x)
	chain := r.Call(nil, func([]*tensor.Dense) error { t.Error("called with a failed argument"); return nil }, bad.Ref())
	after := r.One(ops.Unary{Fn: "neg"}, good.Ref())
	open()
	r.expect(good, 2, 4)
	r.expect(after, -2, -4)
	fails(t, bad.Wait(bg), nil, "rig_test.go:", "gather: cpu:0:", "token 7")
	cause := bad.Err()
	for _, err := range []error{child.Wait(bg), mixed.Wait(bg), chain.Wait(bg)} {
		if err != cause {
			t.Errorf("%v, expected what the cause failed with", err)
		}
	}
	if err := child.Release(); err != nil {
		t.Error(err)
	}
	if !mixed.Meta().Equal(shape.F32(1, 2)) {
		t.Errorf("metadata %v of a tensor that failed later", mixed.Meta())
	}
	fails(t, r.One(ops.AddOp, mixed, bad).Wait(bg), nil, "token 7")
	if d := r.told(); len(d) != 1 || d[0] != cause {
		t.Errorf("diagnostics %v: expected one", d)
	}
}

func TestDevices(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	y := x.CopyTo("cpu:1")
	if y.Device() != "cpu:1" {
		t.Error(y.Device())
	}
	fails(t, r.One(ops.AddOp, x.Ref(), y.Ref()).Err(), ErrDevice, "argument 1", "CopyTo")
	r.expect(r.One(ops.Unary{Fn: "neg"}, y), -1, -2)
	fails(t, x.CopyTo("cpu:7").Err(), nil, "no device")
	bad := r.badGather()
	fails(t, bad.CopyTo("cpu:1").Wait(bg), nil, "token 7")
	inv := &Invocation{Op: ops.Fill{Meta: shape.F32(1), Value: 3}, Device: "cpu:1"}
	r.Run(inv)
	if inv.Results[0].Device() != "cpu:1" {
		t.Error(inv.Results[0].Device())
	}
	r.expect(inv.Results[0], 3)
	r.expect(x, 1, 2)
}

// A panic in a program's own op is the error of the call.
func TestPanicInInfer(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	fails(t, r.One(&hold{}, r.floats([]float32{1}, 1), Tensor{}).Err(), nil, "argument 1")
	fails(t, r.One(careless{}).Err(), graph.ErrShape, "call_test.go:", "careless: ", "panicked: no inputs")
	r.expect(r.floats([]float32{1}, 1), 1)
}

// careless is an op whose Infer panics.
type careless struct{ hold }

func (careless) Kind() string { return "careless" }

func (careless) Infer([]shape.Meta) ([]shape.Meta, error) { panic("no inputs") }

func (careless) Grad(*graph.Builder, *graph.Node, []*graph.Value) []*graph.Value { return nil }

func (careless) Cost(_, _ []shape.Meta) graph.Cost { return graph.Cost{} }

// labeled is an op whose kind is a field: that of a nil one panics.
type labeled struct {
	ops.Fill
	kind string
}

func (l *labeled) Kind() string { return l.kind }

// An op that is nil inside fails its call, and holds up no other one.
func TestNilOps(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	var none *labeled
	for range 2 {
		fails(t, r.One(none).Err(), graph.ErrShape, "call_test.go:", "*eager.labeled: ", "panicked: ")
		fails(t, r.One(Freeze(nil)).Err(), errs.ErrOptions, "call_test.go:", "the op is nil")
		r.expect(r.One(ops.Unary{Fn: "neg"}, r.floats([]float32{1}, 1)), -1)
	}
}

func TestChain(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	var got []float32
	note := func(ds []*tensor.Dense) error {
		got = append(got, ds[0].Data().([]float32)...)
		return nil
	}
	chain := new(Chain)
	for i := range 6 { // the chain orders calls on different devices
		x := r.FromBytes(shape.F32(1), shape.Bytes([]float32{float32(i)}), r.devs[i%2].ID())
		chain = r.Call(chain, note, x)
	}
	if err := chain.Wait(bg); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != float32(i) {
			t.Fatalf("order %v", got)
		}
	}
	// A failure goes along the chain, through ops too.
	broken := errors.New("disk full")
	chain = r.Call(chain, func([]*tensor.Dense) error { return broken })
	inv := &Invocation{Op: ops.Fill{Meta: shape.F32(1)}, Chain: chain, Loc: At(graph.Pos{File: "script", Line: 3})}
	r.Run(inv)
	fails(t, inv.Results[0].Wait(bg), broken, "call_test.go:", "call: ")
	chain = r.Call(inv.Chain, note, r.floats([]float32{1}, 1))
	fails(t, chain.Wait(bg), broken)
	if chain.Err() == nil || len(got) != 6 {
		t.Error("a call ran after the chain had failed")
	}
	// So does a panic of a function.
	chain = r.Call(nil, func(ds []*tensor.Dense) error { return ds[1].T() }, r.floats([]float32{1}, 1))
	fails(t, r.Call(chain, note, r.floats([]float32{1}, 1)).Wait(bg), nil, "call_test.go:", "call: the function panicked: ", "index out of range [1]", "(at ")
	// A call that is wrong breaks its chain at once.
	inv = &Invocation{Op: ops.AddOp, Chain: new(Chain), Loc: At(graph.Pos{File: "script", Line: 4})}
	r.Run(inv)
	fails(t, inv.Chain.Err(), graph.ErrShape, "script:4: add")
	fails(t, r.Call(inv.Chain, note, r.floats([]float32{1}, 1)).Wait(bg), graph.ErrShape)
}

func TestWaitIsBounded(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate()
	x := r.One(ops.Unary{Fn: "neg"}, r.floats([]float32{1}, 1))
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := x.Wait(ctx); err != context.Canceled {
		t.Error(err)
	}
	if _, err := x.ToHost(ctx); err != context.Canceled {
		t.Error(err)
	}
	for range 100 { // as a program that looks from time to time
		if err := x.Wait(ctx); err != context.Canceled {
			t.Error(err)
		}
	}
	if n := len(r.lanes[0].progress.waiters); n != 0 {
		t.Errorf("%d waiters are left", n)
	}
	if x.Done() || x.Err() != nil {
		t.Error("done while the lane is held")
	}
	if err := x.Release(); err != nil { // while it is pending
		t.Error(err)
	}
	open()
}
