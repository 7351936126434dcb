package eager

import (
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// gated is x * sigmoid(Scale x), of parts.
type gated struct{ Scale float64 }

func (gated) Kind() string { return "gated" }

func (o gated) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	return []*graph.Value{ops.Mul(b, in[0], ops.Sigmoid(b, ops.ScaleBy(b, in[0], o.Scale)))}
}

// tripled is a gated whose gradient is said to be 3 dy.
type tripled struct{ gated }

func (tripled) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{ops.ScaleBy(b, dy[0], 3)}
}

func TestCompositeOpByOp(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	for _, scale := range []float64{0, 2, 0} {
		x := r.floats([]float32{8, 0}, 2)
		r.expect(r.One(graph.Compose(gated{scale}), x), map[float64][]float32{0: {4, 0}, 2: {8 / (1 + 1.1253517e-07), 0}}[scale]...)
	}
	type closure struct {
		gated
		F func()
	}
	fails(t, r.One(graph.Compose(closure{}), r.floats([]float32{1}, 1)).Err(), nil, "field F", "use numbers")

	tape := r.NewTape()
	x := r.floats([]float32{0, 0}, 2)
	y := tape.One(graph.Compose(tripled{}), x.Ref())
	z := tape.One(graph.Compose(gated{}), y)
	grads, err := tape.Gradients(z, x)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(grads[0], 1.5, 1.5)
	r.expect(z, 0, 0)
	r.expect(x, 0, 0)
	if err := tape.Close(); err != nil {
		t.Error(err)
	}
}
