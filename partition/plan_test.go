package partition

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/segment"
)

func TestAccessors(t *testing.T) {
	p := mustPlan(t, nets.Tied(2), PlanOptions{Devices: nets.Specs(2, 0)})
	g := p.Graph
	for name, want := range map[string]device.Usage{
		"input": device.Input, "b0.weight": device.Weight, "b0.weight/momentum": device.OptState, "step": device.OptState, "ring": device.OptState,
		"b0.tanh": device.Activation, "backward/b1.matmul": device.Activation, "sum(loss)": device.Grad, "update/sum_squares": device.Grad,
	} {
		if got := p.Usage(g.Find(name)); got != want {
			t.Errorf("%s counts as %v, want %v", name, got, want)
		}
	}
	for _, a := range g.Assigns {
		if p.index.Identity(a.New) != a.Var {
			t.Errorf("%v is held by %v", a.New, p.index.Identity(a.New))
		}
	}
	if v := g.Find("b0.tanh"); p.index.Identity(v) != v {
		t.Error("an activation is held by another value")
	}
}

// TestTrainingGoesBack refuses the schedule of evaluations for a training.
func TestTrainingGoesBack(t *testing.T) {
	g, err := nets.Chain(2, 4, 2, 2).Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(2, 0), Microbatches: 2, Schedule: "forward"}); !errors.Is(err, ErrStages) {
		t.Error(err)
	}
}

// TestActionFlopsAddUp: the passes of a stage share its arithmetic.
func TestActionFlopsAddUp(t *testing.T) {
	for _, name := range []string{"1f1b", "zb-h1"} {
		for _, microbatches := range []int{1, 3} {
			p := mustPlan(t, nets.Chain(3, 4, 2, microbatches), PlanOptions{Devices: nets.Specs(3, 0), Schedule: name})
			for _, s := range p.Stages {
				of := func(k schedule.Kind) float64 { return p.ActionFlops().Action(schedule.Action{Stage: s.Index, Kind: k}) }
				if all := of(schedule.Forward) + of(schedule.Backward) + of(schedule.Weights); all != float64(s.Flops) {
					t.Errorf("%s: stage %d has %v flops in its passes, and %d in all", name, s.Index, all, s.Flops)
				}
				if first := s.Index == 0; name == "zb-h1" && (of(schedule.Backward) == 0) != first || (of(schedule.Weights) > 0) != (name == "zb-h1") {
					t.Errorf("%s: stage %d has %v flops in B, %v in W", name, s.Index, of(schedule.Backward), of(schedule.Weights))
				}
			}
		}
	}
}

// drawOptions places by hand, by count, or automatically.
func drawOptions(t *rapid.T, s nets.Net) PlanOptions {
	o := PlanOptions{Devices: nets.Specs(rapid.IntRange(1, 4).Draw(t, "devices"), 0), Microbatches: s.Microbatches}
	o.Apart = rapid.Bool().Draw(t, "apart")
	o.grains = []segment.Grain{segment.Grain(rapid.IntRange(0, segment.Grains-1).Draw(t, "grain"))}
	o.Schedule = rapid.SampledFrom([]string{"", "1f1b", "gpipe", "zb-h1", "interleaved"}).Draw(t, "schedule")
	o.Reduction = rapid.SampledFrom([]Reduction{"", ReduceOrder, ReduceTree}).Draw(t, "reduction")
	if o.Reduction == ReduceTree {
		o.Replicas = rapid.IntRange(0, min(len(o.Devices), s.Microbatches)).Draw(t, "replicas")
		o.Shard = rapid.SampledFrom([]Shard{"", ShardNone, ShardOptimizer}).Draw(t, "shard")
	}
	o.Recompute = rapid.SampledFrom([]Recompute{RecomputeNone, RecomputeCheap, RecomputeBlock}).Draw(t, "recompute")
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		o.Stages = [][]string{nil}
		for i := range s.Blocks {
			if i > 0 && rapid.Bool().Draw(t, "cut") {
				o.Stages = append(o.Stages, nil)
			}
			o.Stages[len(o.Stages)-1] = append(o.Stages[len(o.Stages)-1], fmt.Sprintf("b%d", i))
		}
	case 1:
		o.Count = rapid.IntRange(1, len(s.Blocks)).Draw(t, "count")
	}
	return o
}

// checkPlan checks the properties of every plan.
func checkPlan(t *rapid.T, p *Plan) {
	in := map[int]string{}
	made := map[string]bool{}
	for i, s := range p.Segments {
		if s.ID != i {
			t.Fatalf("segment %d has ID %d", i, s.ID)
		}
		for _, n := range s.First.Graph.Nodes {
			if n.ID >= p.index.IDs {
				continue // a copy
			}
			if other := in[n.ID]; other != "" {
				t.Fatalf("node %v is in %s and %s", n, other, s.Name)
			}
			in[n.ID] = s.Name
		}
		checkVariant(t, s.Name, s.First)
		checkVariant(t, s.Name, s.Later)
		if s.Reduce.Graph != nil {
			checkVariant(t, s.Name, s.Reduce)
		}
		if !slices.Equal(s.Later.Graph.Inputs[:len(s.First.In)], s.First.Graph.Inputs) || len(s.Later.Out) != len(s.First.Out) {
			t.Fatalf("%s: Later has other slots than First", s.Name)
		}
		for _, slot := range s.First.In {
			if v := slot.Value; v.Kind != graph.Variable && v.Kind != graph.Input && !made[v.Name] {
				t.Fatalf("%s reads %s before it is made", s.Name, v.Name)
			}
		}
		if s.Split.Graph != nil {
			checkVariant(t, s.Name, s.Split)
		}
		for _, slot := range append(s.First.Out, s.Split.Out...) {
			made[slot.Value.Name] = true
		}
	}
	checkUnread(t, p)
	if len(in) != len(p.Graph.Nodes) {
		t.Fatalf("%d of %d nodes are in a segment", len(in), len(p.Graph.Nodes))
	}
}

// checkUnread checks that only outputs of the graph are written for nobody.
func checkUnread(t *rapid.T, p *Plan) {
	isRead := map[*graph.Value]bool{}
	for _, s := range p.Segments {
		for _, slot := range append(s.First.In, s.Split.In...) {
			isRead[slot.Value] = true
		}
	}
	for _, s := range p.Segments {
		for _, slot := range s.First.Out {
			if v := slot.Value; v.Kind != graph.Variable && !isRead[v] && !slices.Contains(p.Graph.Outputs, v) {
				t.Fatalf("%s writes %s for nobody", s.Name, v.Name)
			}
		}
	}
}

func checkVariant(t *rapid.T, name string, v Variant) {
	if len(v.In) != len(v.Graph.Inputs) || len(v.Out) != len(v.Graph.Outputs) || len(v.Alias) != len(v.Out) {
		t.Fatalf("%s: %d slots for %d inputs, %d and %d aliases for %d outputs", name, len(v.In), len(v.Graph.Inputs), len(v.Out), len(v.Alias), len(v.Graph.Outputs))
	}
	seen := map[*graph.Value]bool{}
	for i, o := range v.Graph.Outputs {
		if seen[o] {
			t.Fatalf("%s writes %s twice", name, o.Name)
		}
		seen[o] = true
		if a := v.Alias[i]; (a >= 0) != (v.Out[i].Mode == ReadWrite) || a >= 0 && (v.In[a].Mode != ReadWrite || v.In[a].Value != v.Out[i].Value) {
			t.Fatalf("%s: output %s has alias %d and mode %v", name, o.Name, a, v.Out[i].Mode)
		}
	}
}

func slotNames(v Variant) []string {
	var s []string
	for _, slots := range [][]Slot{v.In, v.Out} {
		for _, x := range slots {
			s = append(s, x.Value.Name+" "+x.Mode.String())
		}
	}
	return s
}
