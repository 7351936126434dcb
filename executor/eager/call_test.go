package eager

import (
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
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
	for _, bad := range []*Tensor{
		r.One(ops.AddOp, nil, nil),
		r.FromHost(nil, ""),
		r.FromHost(tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1})), "cpu:9"),
		r.FromBytes(shape.F32(2), make([]byte, 7), ""),
		r.One(ops.Unary{Fn: "nothing"}),
	} {
		fails(t, bad.Err(), nil, "call_test.go:")
	}
}

func TestPoisonOnlyDependents(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate() // everything is queued before the failure is known
	x := r.floats([]float32{1, 2}, 1, 2)
	bad := r.badGather()
	child := r.One(ops.Unary{Fn: "neg"}, bad.Ref())
	mixed := r.One(ops.AddOp, child, x.Ref())
	good := r.One(ops.AddOp, x.Ref(), x)
	chain := r.Call(nil, func([]*tensor.Dense) error { t.Error("called with a failed argument"); return nil }, bad.Ref())
	after := r.One(ops.Unary{Fn: "neg"}, good.Ref())
	open()
	r.expect(good, 2, 4)
	r.expect(after, -2, -4)
	fails(t, bad.Wait(bg), nil, "rig_test.go:", "gather: cpu:0:", "token 7")
	for _, err := range []error{child.Wait(bg), mixed.Wait(bg), chain.Wait(bg)} {
		if err != bad.Err() {
			t.Errorf("%v, expected what the cause failed with", err)
		}
	}
	if !mixed.Meta().Equal(shape.F32(1, 2)) {
		t.Errorf("metadata %v of a tensor that failed later", mixed.Meta())
	}
	fails(t, r.One(ops.AddOp, mixed, bad).Wait(bg), nil, "token 7")
	if d := r.told(); len(d) != 1 || d[0] != bad.Err() {
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
