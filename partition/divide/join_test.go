package divide_test

import (
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/divide"
)

// A graph that joins averages computes the same from their ranges, and leaves all else as it is.
func TestJoin(t *testing.T) {
	spec := models.Spec{
		Input: shape.F32(3), Target: shape.F32(2), Loss: "mse", Averaged: func(string) bool { return true },
		Layers: models.MLP([]int{4}, "tanh", 2, graph.Pos{}),
	}
	g, err := models.Predict(spec, models.Size{Microbatch: 2})
	if err != nil {
		t.Fatal(err)
	}
	feed, parts := map[*graph.Value]ref.Array{}, map[string]ref.Array{}
	var ranges []*graph.Value
	for i, v := range append(slices.Clone(g.Inputs), g.Vars...) {
		a := ref.New(v.Meta)
		for k := range a.F {
			a.F[k] = float64(i) - float64(k*k%7)/5
		}
		if feed[v] = a; v.Role != graph.Average || v.Name == "layers.1.bias/ema" {
			continue
		}
		for from, n := 0, v.Meta.Elems(); from < n; from += 2 {
			p := *v
			p.Name, p.Meta, p.Range = v.Name+string(rune('a'+from)), shape.F32(min(2, n-from)), &graph.Range{Of: v, From: from}
			ranges = append(ranges, &p)
		}
	}
	joined := divide.Join(g, ranges)
	if len(ranges) != 6+2+4 || len(joined.Vars) != len(ranges)+1 || divide.Join(g, g.Vars) != g {
		t.Fatalf("%d ranges, and variables %v", len(ranges), joined.Vars)
	}
	now := map[*graph.Value]ref.Array{}
	for _, v := range append(slices.Clone(joined.Inputs), joined.Vars...) {
		whole := feed[v.Whole()]
		if now[v] = whole; v.Range != nil {
			now[v] = ref.Floats(whole.F[v.Range.From:][:v.Meta.Elems()], v.Meta.Elems())
		}
		parts[v.Name] = now[v]
	}
	want, err := ref.Eval(g, feed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ref.Eval(joined, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != len(now) || len(joined.Outputs) != len(g.Outputs) || len(g.Outputs) == 0 {
		t.Fatalf("outputs %v of variables %v", joined.Outputs, joined.Vars)
	}
	for i, v := range g.Outputs {
		if a, b := got[joined.Outputs[i]], want[v]; !slices.Equal(a.F, b.F) {
			t.Errorf("%s is %v, want %v", v.Name, a.F, b.F)
		}
	}
	for _, n := range g.Nodes {
		if slices.ContainsFunc(n.In, func(v *graph.Value) bool { return v.Range != nil }) {
			t.Errorf("%v of the first graph reads a range", n)
		}
	}
}
