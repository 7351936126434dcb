package segment_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
)

// drawn is a random graph that is placed for a random setup.
func drawn(t *rapid.T) (passes.Setup, *nodes.Index, *place.Placement) {
	n := nets.Draw(t)
	s := passes.Draw(t, n)
	idx, pl := s.Place(t, s.Index(t, passes.Build(t, n), n.Microbatches))
	return s, idx, pl
}

// TestSegmentsAreInOrder walks the segments of random graphs. Each node is in one segment, of
// its stage, and behind the nodes whose results it reads. So is the node that writes a
// variable's new value: it is behind every reader of the old one.
func TestSegmentsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, idx, pl := drawn(t)
		at := map[int]int{} // by Node.ID: its place in the list of all nodes
		for i, x := range s.Segments(t, idx, pl) {
			if x.ID != i {
				t.Fatalf("segment %d has ID %d", i, x.ID)
			}
			for _, n := range x.First.Graph.Nodes {
				if n.ID >= idx.IDs {
					continue // it copies or adds a part of a sum
				}
				if _, twice := at[n.ID]; twice || pl.Node[n.ID] != x.Stage {
					t.Fatalf("%v of stage %d is in %s, a second time: %v", n, pl.Node[n.ID], x.Name, twice)
				}
				at[n.ID] = len(at)
			}
		}
		if len(at) != len(idx.Graph.Nodes) {
			t.Fatalf("%d of %d nodes are in a segment", len(at), len(idx.Graph.Nodes))
		}
		for _, n := range idx.Graph.Nodes {
			before := slices.Concat(idx.Before[n.ID], idx.Behind[n.ID])
			for _, v := range n.In {
				if v.Kind == graph.Computed {
					before = append(before, v.Node)
				}
			}
			for _, b := range before {
				if at[b.ID] >= at[n.ID] {
					t.Fatalf("%v runs before %v", n, b)
				}
			}
		}
	})
}

// TestTensorsAreWrittenBefore checks that what a segment reads is a variable, an input, or
// written by a segment before it, and that outputs aside, what it writes is read.
func TestTensorsAreWrittenBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, idx, pl := drawn(t)
		segments := s.Segments(t, idx, pl)
		written, read := map[*graph.Value]bool{}, map[*graph.Value]bool{}
		for _, x := range segments {
			for _, in := range x.First.In {
				read[in.Value] = true
				if k := in.Value.Kind; k != graph.Variable && k != graph.Input && !written[in.Value] {
					t.Fatalf("%s reads %s, which no segment has written", x.Name, in.Value.Name)
				}
			}
			for _, in := range x.Split.In {
				read[in.Value] = true
			}
			for _, out := range slices.Concat(x.First.Out, x.Split.Out) {
				written[out.Value] = true
			}
		}
		for v := range written {
			if v.Kind != graph.Variable && !read[v] && !slices.Contains(idx.Graph.Outputs, v) {
				t.Fatalf("%s is written for nobody", v.Name)
			}
		}
	})
}

// TestGrainsCutOneList compares the grains: each stage runs the same nodes in the same order.
func TestGrainsCutOneList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, idx, pl := drawn(t)
		type list struct {
			pass                  schedule.Kind
			stage, replica, level int
		}
		var coarse map[list][]int
		count := 0
		for at := range segment.Grains {
			s.Grain = segment.Grain(at)
			segments, lists := s.Segments(t, idx, pl), map[list][]int{}
			for _, x := range segments {
				k := list{x.Pass, x.Stage, x.Replica, x.Level}
				for _, n := range x.First.Graph.Nodes {
					lists[k] = append(lists[k], n.ID)
				}
				if whole := s.Grain == segment.WholePhases; whole && x.Piece != "" {
					t.Fatalf("%s is a piece %q", x.Name, x.Piece)
				}
			}
			if coarse == nil {
				coarse = lists
			}
			for k, want := range coarse {
				if got := withoutCopies(idx, lists[k]); !slices.Equal(got, withoutCopies(idx, want)) {
					t.Fatalf("%v: %+v runs %v, in whole phases %v", s.Grain, k, got, want)
				}
			}
			if s.Grain != segment.WholePhases && len(segments) < count {
				t.Fatalf("%v: %d segments, of a coarser grain %d", s.Grain, len(segments), count)
			}
			count = len(segments)
		}
	})
}

// withoutCopies leaves out the nodes that the graph does not have: a value that crosses pieces
// may be copied to be summed.
func withoutCopies(idx *nodes.Index, ids []int) []int {
	return slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return id >= idx.IDs })
}

// TestGrainsAreNamed: the grains are told apart in the plan that is printed.
func TestGrainsAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for g := range segment.Grains {
		seen[fmt.Sprint(segment.Grain(g))] = true
	}
	if len(seen) != segment.Grains || seen[""] {
		t.Errorf("%d grains have the names %v", segment.Grains, seen)
	}
}
