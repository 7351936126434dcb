package partition

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/nets"
)

// TestMerging compares the segments of each stage, first to last.
func TestMerging(t *testing.T) {
	clipped, plain := nets.Tied(1), nets.Tied(1)
	plain.Clip = false
	three := [][]string{{"b0"}, {"b1"}, {"b2"}}
	for _, c := range []struct {
		name string
		Net  nets.Net
		o    PlanOptions
		want string
	}{
		{"one stage", clipped, PlanOptions{}, "FBU"},
		{"apart", clipped, PlanOptions{Apart: true}, "F B U"},
		{"two microbatches", nets.Tied(2), PlanOptions{}, "F B U"},
		{"three stages, of which the last knows the norm", clipped, PlanOptions{Stages: three}, "F BU U, F BU U, FBU U"},
		{"three stages without clipping", plain, PlanOptions{Stages: three}, "F BU, F BU, FBU"},
	} {
		c.o.Devices = nets.Specs(3, 0)
		if c.o.Stages == nil {
			c.o.Devices = nets.Specs(1, 0)
		}
		p := mustPlan(t, c.Net, c.o)
		var got []string
		for s := range p.Stages {
			got = append(got, passesText(p.segmentsOf()[s]))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// TestUpdatesFollowTheCheck: in a merged segment no update comes before the
// node that refuses a loss, and each comes right after the nodes it waits for.
func TestUpdatesFollowTheCheck(t *testing.T) {
	p := mustPlan(t, nets.Tied(1), PlanOptions{Devices: nets.Specs(1, 0)})
	checked, last := false, graph.Forward
	early := 0
	for _, n := range p.Segments[0].First.Graph.Nodes {
		checked = checked || n.Op.Kind() == "check_finite"
		if n.Phase == graph.Update && !checked {
			t.Errorf("%v runs before the loss is checked", n)
		}
		if n.Phase == graph.Backward && last == graph.Update {
			early++
		}
		last = n.Phase
	}
	if early < 2 {
		t.Errorf("updates stand in front of the backward pass %d times", early)
	}
}
