package eager

import (
	"testing"

	"github.com/berth-ml/berth/engine/ops"
)

func TestConsumed(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	r.expect(r.One(ops.Unary{Fn: "neg"}, x.Ref()), -1, -2)
	r.expect(r.One(ops.Unary{Fn: "neg"}, x), -1, -2)
	fails(t, r.One(ops.Unary{Fn: "neg"}, x).Err(), ErrConsumed, "argument 0", "x.Ref()", "tensor_test.go:")
	fails(t, x.Ref().Err(), ErrConsumed, "tensor_test.go:")
	fails(t, x.Release(), ErrConsumed, "tensor_test.go:")
	_, err := x.ToHost(bg)
	fails(t, err, ErrConsumed, "tensor_test.go:")
	fails(t, x.CopyTo("cpu:0").Err(), ErrConsumed)
	y := r.floats([]float32{3}, 1)
	fails(t, r.One(ops.AddOp, y, y).Err(), ErrConsumed, "argument 1")
}
