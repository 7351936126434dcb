package segment_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// segmentsOf are the segments of a net.
func segmentsOf(t passes.T, s passes.Setup, n nets.Net) (*nodes.Index, []segment.Segment) {
	t.Helper()
	idx, pl := s.Place(t, s.Index(t, passes.Build(t, n), n.Microbatches))
	return idx, s.Segments(t, idx, pl)
}

// TestMerging compares the segments of each stage, first to last.
func TestMerging(t *testing.T) {
	clipped, plain, three := nets.Tied(1), nets.Tied(1), passes.EachBlock(3)
	plain.Clip = false
	for _, c := range []struct {
		name string
		net  nets.Net
		s    passes.Setup
		want string
	}{
		{"one stage", clipped, passes.Setup{}, "FBU"},
		{"apart", clipped, passes.Setup{Apart: true}, "F B U"},
		{"two microbatches", nets.Tied(2), passes.Setup{}, "F B U"},
		{"three stages, of which the last knows the norm", clipped, three, "F BU U, F BU U, FBU U"},
		{"three stages without clipping", plain, three, "F BU, F BU, FBU"},
	} {
		stages := make([][]string, max(1, len(c.s.Begins)))
		_, segments := segmentsOf(t, c.s, c.net)
		for _, x := range segments {
			stages[x.Stage] = append(stages[x.Stage], x.Passes.String())
		}
		var got []string
		for _, list := range stages {
			got = append(got, strings.Join(list, " "))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// TestUpdatesFollowTheCheck: in a merged segment no update comes before the
// node that refuses a loss, and each comes right after the nodes it waits for.
func TestUpdatesFollowTheCheck(t *testing.T) {
	_, segments := segmentsOf(t, passes.Setup{}, nets.Tied(1))
	checked, last := false, graph.Forward
	early := 0
	for _, n := range segments[0].First.Graph.Nodes {
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

// TestBackwardIsWhatOtherStagesAwait checks both sides of the cut: no stage awaits a
// result of W, and some stage awaits what each node of B leads to.
func TestBackwardIsWhatOtherStagesAwait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		s.Schedule = "zb-h1"
		idx, segments := segmentsOf(t, s, n)
		in := map[*graph.Node]*segment.Segment{} // nodes of B and W
		for i := range segments {
			for _, n := range segments[i].First.Graph.Nodes {
				in[n] = &segments[i]
			}
		}
		leads := map[*graph.Node]bool{} // nodes of B: to what another stage reads
		for i := len(idx.Graph.Nodes) - 1; i >= 0; i-- {
			n := idx.Graph.Nodes[i]
			at := in[n]
			for _, v := range n.Out {
				for _, r := range idx.Readers[v.ID] {
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
