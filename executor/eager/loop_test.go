package eager

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// A loop in a function gives the bits of its steps as single calls, and gradients that
// agree with those of a tape.
func TestLoopsInFunctions(t *testing.T) {
	const steps, rows, width = 5, 2, 3
	r := open(t, 1, ContextOptions{})
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Sin(float64(i*i + n)))
		}
		return x
	}
	h, w, xs := r.floats(numbers(rows*width), rows, width), r.floats(numbers(width*width), width, width), r.floats(numbers(steps*rows*width), steps, rows, width)
	loop := Compile("loop", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		last, _ := ops.Scan(b, in[:1], in[2:], ops.ScanOptions{}, func(b *graph.Builder, c, x []*graph.Value) (next, y []*graph.Value) {
			return []*graph.Value{ops.Tanh(b, ops.Add(b, ops.MatMulOf(b, c[0], in[1], false, false), x[0]))}, nil
		})
		return last
	})
	tape := r.NewTape()
	state := h.Ref()
	for k := range steps {
		x := tape.One(ops.Slice{Start: []int{k, 0, 0}, Stop: []int{k + 1, rows, width}}, xs.Ref())
		x = tape.One(ops.Reshape{Shape: []int{rows, width}}, x)
		state = tape.One(ops.Unary{Fn: "tanh"}, tape.One(ops.AddOp, tape.One(ops.MatMul{}, state, w.Ref()), x))
	}
	want, err := tape.Gradients(state, h, w, xs)
	if err != nil {
		t.Fatal(err)
	}
	if err := tape.Close(); err != nil {
		t.Error(err)
	}
	got := r.Execute(loop.Gradients(0, 1, 2), h, w, xs)
	r.expect(got[0], r.value(state)...)
	for i, g := range got[1:] {
		a, b := r.value(g), r.value(want[i])
		for j := range a {
			if math.Abs(float64(a[j]-b[j])) > 1e-6 {
				t.Errorf("gradient %d at %d is %v, with a tape %v", i, j, a[j], b[j])
			}
		}
	}
}
