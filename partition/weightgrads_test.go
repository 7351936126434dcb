package partition

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
)

// TestWeightsArePassesOfTheirOwn lists the launches of three stages. Nobody waits for
// a gradient of the first one: it has no B.
func TestWeightsArePassesOfTheirOwn(t *testing.T) {
	p := mustPlan(t, chain(3, 4, 2, 2), PlanOptions{Devices: specs(3, 0), Schedule: "zb-h1"})
	var names []string
	for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 2}) {
		names = append(names, l.Name())
	}
	want := "s0.F0 s0.F1 s1.F0 s1.F1 s2.F0 s2.B0 s1.B0 s2.F1 s2.B1 s0.W0 s1.B1 s2.W0 s1.W0 s2.W1 s0.W1 s1.W1 s2.U0 s0.U1 s1.U1"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBackwardIsWhatOtherStagesAwait checks both sides of the cut: no stage awaits a
// result of W, and some stage awaits what each node of B leads to.
func TestBackwardIsWhatOtherStagesAwait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNet(t)
		g, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		o := drawOptions(t, s)
		o.Schedule = "zb-h1"
		p, err := New(g, o)
		if err != nil {
			t.Fatal(err)
		}
		in := map[*graph.Node]*Segment{} // nodes of B and W
		for i := range p.Segments {
			for _, n := range p.Segments[i].First.Graph.Nodes {
				in[n] = &p.Segments[i]
			}
		}
		leads := map[*graph.Node]bool{} // nodes of B: to what another stage reads
		for i := len(p.Graph.Nodes) - 1; i >= 0; i-- {
			n := p.Graph.Nodes[i]
			at := in[n]
			for _, v := range n.Out {
				for _, r := range p.idx.readers[v.ID] {
					away := r.Phase == graph.Backward && in[r].Stage != at.Stage
					if at.Pass == schedule.Weights && (away || in[r].Pass == schedule.Backward) {
						t.Fatalf("%s makes %s, which %s reads", at.Name, v.Name, in[r].Name)
					}
					leads[n] = leads[n] || away || leads[r]
				}
			}
			if at.Pass == schedule.Backward && !leads[n] {
				t.Fatalf("%s runs %v, for which nobody waits", at.Name, n)
			}
		}
	})
}
