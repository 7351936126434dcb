package place_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// Numbers of the update go from a device that does not run them to the last stage whose device
// does, with the counters that they assign. Nothing else moves, and where no device runs a node,
// it stays.
func TestMoveUnsupported(t *testing.T) {
	no := errors.New("no kernel")
	for name, c := range map[string]struct {
		refused []int // devices
		to      int   // the stage of a number of the update that was on the last one
	}{
		"none": {nil, 2}, "the last": {[]int{2}, 1}, "the last two": {[]int{1, 2}, 0}, "all": {[]int{0, 1, 2}, 2},
	} {
		g, s := passes.Build(t, nets.Tied(2)), passes.EachBlock(3)
		idx, p := s.Place(t, s.Index(t, g, 2))
		before := slices.Clone(p.Node)
		refuses := func(d int) bool { return slices.Contains(c.refused, d) }
		place.MoveUnsupported(p, idx, s.On(), func(d int, n *graph.Node) error {
			if refuses(d) && nodes.Scalars(n.Out) {
				return no
			}
			return nil
		})
		moved := 0
		for _, n := range g.Nodes {
			was, is := before[n.ID], p.Node[n.ID]
			if was == is {
				if idx.Movable(n) && nodes.Scalars(n.Out) && refuses(is) && len(c.refused) < 3 {
					t.Errorf("%s: %v stays on stage %d, whose device does not run it", name, n, is)
				}
				continue
			}
			moved++
			if !idx.Movable(n) || !refuses(was) || refuses(is) {
				t.Errorf("%s: %v moves from stage %d to %d", name, n, was, is)
			}
		}
		if moved != len(p.Moved) || (moved > 0) != (len(c.refused) > 0 && len(c.refused) < 3) {
			t.Errorf("%s: %d nodes move, and %d are listed", name, moved, len(p.Moved))
		}
		for _, m := range p.Moved {
			if m.To != p.Node[m.Node.ID] || m.From != before[m.Node.ID] || !errors.Is(m.Why, no) {
				t.Errorf("%s: %+v", name, m)
			}
		}
		if counter := idx.Assigned[g.Find("step").ID]; p.Node[counter.ID] != c.to || p.Owner["step"] != c.to {
			t.Errorf("%s: the counter is made on stage %d and lives on %d, want %d", name, p.Node[counter.ID], p.Owner["step"], c.to)
		}
	}
}
