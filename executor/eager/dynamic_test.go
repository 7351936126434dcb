package eager

import (
	"context"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// above keeps the elements of a vector that are above a bound, an op of a program.
type above struct {
	Bound float32
	Wrong int32 // added to the count
}

func (above) Kind() string { return "above" }

func (above) Infer(in []shape.Meta) ([]shape.Meta, error) {
	return []shape.Meta{in[0], in[0], shape.I32(1)}, nil
}

func (above) Grad(*graph.Builder, *graph.Node, []*graph.Value) []*graph.Value {
	return []*graph.Value{nil}
}

func (above) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(1, in, out) }

func (o above) Compute(in, out []graph.Tensor) error {
	n := 0
	for i, x := range in[0].F {
		if x > o.Bound {
			out[0].F[n] = x
			n++
		}
		out[1].F[i] = -x
	}
	clear(out[0].F[n:])
	out[2].I[0] = int32(n) + o.Wrong
	return nil
}

// Dynamic does not wait, Tensors does, and only the counts leave the device.
func TestDynamic(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	opened := r.gate()
	d := r.Dynamic(above{Bound: 1}, r.floats([]float32{0, 3, 1, 2}, 4))
	where := r.Dynamic(ops.Nonzero{}, r.floats([]float32{0, 3, 1, 0}, 2, 2))
	if d.Done() || where.Done() {
		t.Error("a call is done while its device is held")
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err := d.Tensors(ctx)
	fails(t, err, context.Canceled)
	opened()
	list, err := d.Tensors(bg)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d results: %v", len(list), err)
	}
	if m := list[0].Meta(); !m.Equal(shape.F32(2)) {
		t.Errorf("the first result is %v", m)
	}
	places, err := where.Tensors(bg)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Ledger().OfReason(ledger.Fetch); got.Bytes != 8 {
		t.Errorf("%d bytes were fetched, expected those of two counts", got.Bytes)
	}
	r.expect(list[0], 3, 2)
	r.expect(list[1], 0, -3, -1, -2)
	if got := r.whole(places[0]); !slices.Equal(got, []int32{0, 1, 1, 0}) {
		t.Errorf("the places are %v", got)
	}
	if !d.Done() {
		t.Error("a call that has given its results is not done")
	}
	_, err = d.Tensors(bg)
	fails(t, err, ErrConsumed, "dynamic_test.go:", "above: ")
	if err := d.Release(); err != nil {
		t.Error(err)
	}
}

func TestDynamicThatFails(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	for name, c := range map[string]struct {
		op   graph.Op
		x    Tensor
		want string
	}{
		"a count beyond the room": {above{Wrong: 1}, r.floats([]float32{1, 2}, 2), "it counts 3 rows of result 0, which has room for 2"},
		"a negative count":        {above{Wrong: -9}, r.floats([]float32{1, 2}, 2), "it counts -7 rows of result 0"},
		"no rows":                 {above{}, r.floats([]float32{1}), "its result 0 is f32[], which has no rows"},
		"an op without counts":    {Freeze(above{}.single()), r.floats([]float32{1, 2}, 2), "its last result, of 1, is f32[2]: for Dynamic it must be i32 [k]"},
		"no op":                   {nil, r.floats([]float32{1, 2}, 2), "the op is nil"},
		"an argument that failed": {ops.Unique{}, r.badGather(), "outside"},
	} {
		t.Run(name, func(t *testing.T) {
			d := r.Dynamic(c.op, c.x)
			_, err := d.Tensors(bg)
			fails(t, err, nil, c.want)
			_, again := d.Tensors(bg)
			if again == nil || again.Error() != err.Error() || !d.Done() {
				t.Errorf("the second time: %v", again)
			}
			if err := d.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	_, err := (&Dynamic{}).Tensors(bg)
	fails(t, err, nil, "OpByOp.Dynamic")
	if err := r.Dynamic(ops.Unique{}, r.ints([]int32{1}, 1)).Release(); err != nil { // nobody asks
		t.Error(err)
	}
}

// single is an op with one result.
func (above) single() graph.Op { return Compile("single", same) }

func same(_ *graph.Builder, in []*graph.Value) []*graph.Value { return in }

// withoutSort is a device that has no kernel of ops.Unique.
type withoutSort struct{ device.Device }

func (d withoutSort) Supports(n *graph.Node) error {
	if n.Op.Kind() == "unique" {
		return device.ErrUnsupported
	}
	return d.Device.Supports(n)
}

// A device that cannot count refuses the call, and the host does not count in its place.
func TestNotCountedOnHost(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	c, err := New([]device.Device{withoutSort{r.devs[0]}}, ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := c.FromBytes(shape.F32(6), shape.Bytes([]float32{3, 0, -1, 3, 0, 7}), "")
	_, err = c.Dynamic(ops.Unique{}, x.Ref()).Tensors(bg)
	fails(t, err, device.ErrUnsupported, "dynamic_test.go:", "unique: ")
	values, index, counts, err := c.Unique(bg, x)
	fails(t, err, device.ErrUnsupported, "dynamic_test.go:", "unique: ")
	for _, h := range []Tensor{values, index, counts} {
		fails(t, h.Err(), device.ErrUnsupported)
	}
	if got := c.Ledger().OfReason(ledger.Fetch).Bytes; got != 0 {
		t.Errorf("%d bytes were fetched", got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
