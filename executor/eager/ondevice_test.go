package eager

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Ops on other devices give the bits of ops on one, and so do their gradients, which are where the weights are. Gradients of
// calls that come again stay op by op.
func TestOnDevice(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	var want [][]float32
	for _, on := range []device.ID{"cpu:0", "cpu:1", "cpu:1"} {
		x, w := r.floats([]float32{1, -2, 3, 4}, 2, 2), r.floats([]float32{5, 0.1}, 2, 1)
		tape := r.NewTape()
		y := tape.One(OnDevice(ops.MatMul{}, on), x.Ref(), w.Ref())
		if y.Device() != on {
			t.Errorf("the product is on %s, expected %s", y.Device(), on)
		}
		z := tape.One(ops.Unary{Fn: "tanh"}, y) // where y is
		loss := tape.One(OnDevice(Freeze(ops.Reduce{Fn: "sum", Axes: []int{0, 1}}), "cpu:0"), z)
		slopes, err := tape.Gradients(loss, w, x)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]float32
		for _, g := range append(slopes, loss) {
			if g.Device() != "cpu:0" {
				t.Errorf("a result is on %s", g.Device())
			}
			got = append(got, r.value(g))
		}
		if want == nil {
			want = got
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("on %s: %v, expected %v", on, got, want)
		}
		if err := errors.Join(x.Release(), w.Release(), tape.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A tape whose calls are all on the second device has its gradients there.
func TestGradientsOnSecondDevice(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	for range 3 {
		x := r.floats([]float32{3}, 1)
		y := x.CopyTo("cpu:1")
		tape := r.NewTape()
		loss := tape.One(ops.Binary{Fn: "mul"}, y.Ref(), y.Ref())
		slopes, err := tape.Gradients(loss, y)
		if err != nil {
			t.Fatal(err)
		}
		if got := slopes[0].Device(); got != "cpu:1" {
			t.Errorf("the gradient is on %s", got)
		}
		r.expect(slopes[0], 6)
		if err := errors.Join(x.Release(), y.Release(), loss.Release(), tape.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestOnDeviceRefused(t *testing.T) {
	r := open(t, 2, ContextOptions{Handler: func(devices Handler) Handler { return devices }})
	neg := ops.Unary{Fn: "neg"}
	x := r.floats([]float32{1}, 1)
	fails(t, r.One(OnDevice(neg, "cpu:7"), x).Err(), nil, "ondevice_test.go:", "neg: this context has no device \"cpu:7\"")
	fails(t, r.One(OnDevice(neg, "cpu:1"), x).Err(), ErrConsumed, "ondevice_test.go:")
	fails(t, r.One(OnDevice(neg, "cpu:1"), Tensor{}).Err(), nil, "argument 0 is the zero Tensor")
	fails(t, r.One(OnDevice(nil, "cpu:1")).Err(), nil, "the op is nil")
	failed := r.One(OnDevice(neg, "cpu:1"), r.badGather())
	fails(t, failed.Wait(bg), nil, "gather: ")
	if err := failed.Release(); err != nil {
		t.Error(err)
	}
	f := Compile("f", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{b.One(OnDevice(neg, "cpu:1"), in[0])}
	})
	fails(t, r.One(f, r.floats([]float32{1}, 1)).Err(), errPlaced, "ondevice_test.go:")
	whole := Compile("whole", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{b.One(neg, in[0])}
	})
	r.expect(r.One(Freeze(OnDevice(neg, "cpu:1")), r.floats([]float32{1}, 1)), -1)
	y := r.One(OnDevice(OnDevice(whole, "cpu:0"), "cpu:1"), r.floats([]float32{1}, 1)) // the outer one counts
	if y.Device() != "cpu:1" {
		t.Errorf("the function ran on %s", y.Device())
	}
	r.expect(y, -1)
}
