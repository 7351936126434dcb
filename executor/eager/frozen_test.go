package eager

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// A frozen op is the op that it was made of: the same bits, gradients and errors. Its
// calls allocate nothing.
func TestFreeze(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	flip := Freeze(ops.Transpose{Perm: []int{1, 0}})
	x := r.floats([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	y := r.One(flip, x.Ref())
	if m := y.Meta(); m.Shape[0] != 3 {
		t.Error(m)
	}
	r.expect(y, 1, 4, 2, 5, 3, 6)
	fails(t, r.One(flip, r.floats([]float32{1}, 1)).Err(), graph.ErrShape, "transpose: ")
	back := Compile("back", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{b.One(flip, b.One(flip, in[0]))}
	})
	r.expect(r.One(back, x.Ref()), 1, 2, 3, 4, 5, 6)

	tape := r.NewTape()
	loss := tape.One(Freeze(ops.Reduce{Fn: "sum", Axes: []int{0, 1}}), tape.One(ops.Binary{Fn: "mul"}, tape.One(flip, x.Ref()), tape.One(flip, x.Ref())))
	grads, err := tape.Gradients(loss, x)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(grads[0], 2, 4, 6, 8, 10, 12)
	if err := errors.Join(tape.Close(), loss.Release()); err != nil {
		t.Error(err)
	}
	z := r.floats(make([]float32, 16), 4, 4)
	for range 5 {
		z = r.One(flip, z)
	}
	if err := z.Wait(bg); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { z = r.One(flip, z) }); n > 0 {
		t.Errorf("%v allocations for a call", n)
	}
	if err := errors.Join(x.Release(), z.Release()); err != nil {
		t.Error(err)
	}
}

// The first number that is not finite fails the op that makes it.
func TestCheckFinite(t *testing.T) {
	r := open(t, 1, ContextOptions{CheckFinite: true})
	x := r.floats([]float32{1, 0, 4}, 3)
	for range 3 { // queued, and at once
		y := r.One(ops.Binary{Fn: "div"}, x.Ref(), x.Ref())
		z := r.One(ops.AddOp, y.Ref(), y.Ref())
		fails(t, z.Wait(bg), nil, "frozen_test.go:", "div: ", "not finite", "element 1")
		r.expect(r.One(ops.AddOp, x.Ref(), x.Ref()), 2, 0, 8)
		if err := errors.Join(y.Release(), z.Release()); err != nil {
			t.Error(err)
		}
	}
	_ = x.Release()
}
