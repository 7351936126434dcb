package partition

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
)

// drawOptions places by hand, by count, or automatically.
func drawOptions(t *rapid.T, s net) PlanOptions {
	o := PlanOptions{Devices: specs(rapid.IntRange(1, 4).Draw(t, "devices"), 0), Microbatches: s.microbatches}
	o.Apart = rapid.Bool().Draw(t, "apart")
	o.Recompute = rapid.SampledFrom([]Recompute{RecomputeNone, RecomputeCheap, RecomputeBlock}).Draw(t, "recompute")
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		o.Stages = [][]string{nil}
		for i := range s.blocks {
			if i > 0 && rapid.Bool().Draw(t, "cut") {
				o.Stages = append(o.Stages, nil)
			}
			o.Stages[len(o.Stages)-1] = append(o.Stages[len(o.Stages)-1], fmt.Sprintf("b%d", i))
		}
	case 1:
		o.Count = rapid.IntRange(1, len(s.blocks)).Draw(t, "count")
	}
	return o
}

// TestAnyPartitionIsTheWholeGraph trains three steps whole and cut.
func TestAnyPartitionIsTheWholeGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNet(t)
		g, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(g, drawOptions(t, s))
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, p)
		want, in := start(g, s.microbatches, rapid.Uint64().Draw(t, "seed"))
		got := want
		for range 3 {
			if want, err = runWhole(g, want, in); err != nil {
				t.Fatal(err)
			}
			k := newMachine(p, got, in)
			if got, err = k.runPlan(s.microbatches); err != nil {
				t.Fatalf("%v\n%s", err, p.Dump())
			}
			if d := differ(want, got); d != "" {
				t.Fatalf("%s\n%s", d, p.Dump())
			}
			if left := k.left(); len(left) > 0 {
				t.Fatalf("never freed: %v\n%s", left, p.Dump())
			}
		}
	})
}

// checkPlan checks what holds for every plan.
func checkPlan(t *rapid.T, p *Plan) {
	in := map[int]string{}
	made := map[string]bool{}
	for i, s := range p.Segments {
		if s.ID != i || s.Device != p.Stages[s.Stage].Device {
			t.Fatalf("segment %d has ID %d and device %d", i, s.ID, s.Device)
		}
		for _, n := range s.First.Graph.Nodes {
			if n.ID >= p.idx.ids {
				continue // a copy
			}
			if other := in[n.ID]; other != "" {
				t.Fatalf("node %v is in %s and %s", n, other, s.Name)
			}
			in[n.ID] = s.Name
		}
		checkVariant(t, s.Name, s.First)
		checkVariant(t, s.Name, s.Later)
		if !slices.Equal(s.Later.Graph.Inputs[:len(s.First.In)], s.First.Graph.Inputs) || len(s.Later.Out) != len(s.First.Out) {
			t.Fatalf("%s: Later has other slots than First", s.Name)
		}
		for _, slot := range s.First.In {
			if v := slot.Value; v.Kind != graph.Variable && v.Kind != graph.Input && !made[v.Name] {
				t.Fatalf("%s reads %s before it is made", s.Name, v.Name)
			}
		}
		for _, slot := range s.First.Out {
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
		for _, slot := range s.First.In {
			isRead[slot.Value] = true
		}
	}
	for _, s := range p.Segments {
		for _, v := range s.Unread {
			if isRead[v] || !slices.Contains(p.Graph.Outputs, v) {
				t.Fatalf("%s lists %s as unread", s.Name, v.Name)
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

// TestSamePlanTwice builds everything twice.
func TestSamePlanTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNet(t)
		o := drawOptions(t, s)
		var text [2]string
		for i := range text {
			g, err := s.build()
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(g, o)
			if err != nil {
				t.Fatal(err)
			}
			text[i] = p.Dump() + p.DOT()
		}
		if text[0] != text[1] {
			t.Fatalf("two plans of one graph:\n%s\n%s", text[0], text[1])
		}
	})
}

// TestRebind runs a step whose last microbatch is smaller: every segment of
// the other graph must fit between those of the first.
func TestRebind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNet(t)
		small := s
		small.batch = 1
		g, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		h, err := small.build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(g, drawOptions(t, s))
		if err != nil {
			t.Fatal(err)
		}
		q, err := p.Rebind(h)
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, q)
		if len(p.Segments) != len(q.Segments) {
			t.Fatalf("%d segments became %d", len(p.Segments), len(q.Segments))
		}
		for i := range p.Segments {
			a, b := &p.Segments[i], &q.Segments[i]
			if a.Name != b.Name || !slices.Equal(slotNames(a.Later), slotNames(b.Later)) || !slices.Equal(slotNames(a.First), slotNames(b.First)) {
				t.Fatalf("segment %s became %s:\n%s\n%s", a.Name, b.Name, p.Dump(), q.Dump())
			}
		}
	})
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
