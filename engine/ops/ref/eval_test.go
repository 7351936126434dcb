package ref_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

func TestEval(t *testing.T) {
	b := graph.NewBuilder("net", 2)
	x := b.Input("x", shape.F32())
	part := ops.Square(b, x)
	sum := b.Accumulate(part, ops.AddOp)
	b.Output("doubled", ops.ScaleBy(b, sum, 2))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	eval := func(feed map[*graph.Value]ref.Array) map[*graph.Value]ref.Array {
		vals, err := ref.Eval(g, feed)
		if err != nil {
			t.Fatal(err)
		}
		return vals
	}
	vals := eval(map[*graph.Value]ref.Array{x: scalar(3)})
	near(t, "from the part", vals[g.Outputs[0]].F, []float64{18})
	near(t, "the sum", vals[sum].F, []float64{9})
	vals = eval(map[*graph.Value]ref.Array{x: scalar(3), sum: scalar(100)})
	near(t, "from a fed sum", vals[g.Outputs[0]].F, []float64{200})
	if _, err := ref.Eval(g, nil); err == nil || !strings.Contains(err.Error(), "reads x f32[], which was not fed") {
		t.Errorf("error %v", err)
	}
	if _, err := ref.Eval(g, map[*graph.Value]ref.Array{x: count(1)}); err == nil || !strings.Contains(err.Error(), "x f32[] is fed i32[]") {
		t.Errorf("error %v", err)
	}
}
