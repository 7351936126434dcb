package device_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestFindKernel(t *testing.T) {
	ks := device.MergeKernels(device.Kernels[int]{"add(f32,f32)->f32": 1, "concat(f32...)->f32": 2}, device.Kernels[int]{"fill()->i32": 3})
	if want := []string{"add(f32,f32)->f32", "concat(f32...)->f32", "fill()->i32"}; !reflect.DeepEqual(ks.Names(), want) {
		t.Errorf("names %v", ks.Names())
	}
	b := graph.NewBuilder("test", 1)
	x, i := b.Input("x", shape.F32(2, 3)), b.Input("i", shape.I32(2, 3))
	for _, c := range []struct {
		v    *graph.Value
		want int // 0: there is none
	}{
		{b.One(ops.Binary{Fn: "add"}, x, x), 1},
		{b.One(ops.Concat{}, x, x, x), 2},
		{b.One(ops.Concat{}, i, i), 0},
		{b.One(ops.Unary{Fn: "relu"}, x), 0},
	} {
		got, err := ks.Find(c.v.Node)
		if got != c.want || (err == nil) != (c.want > 0) || err != nil && !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("%v: %d, %v", c.v.Node, got, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a name was taken twice")
		}
	}()
	device.MergeKernels(ks, ks)
}
