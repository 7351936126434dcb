package cut

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
)

// cutAutomatically finds the contiguous cut, and the order of devices, with the
// fastest step among those that fit; of equally fast ones the first in the order of
// the devices, with the fewest bytes across cuts. If none fits, it balances time
// alone, and checkMemory reports the missing bytes.
func cutAutomatically(idx *nodes.Index, blocks []string, o Options) (Cut, error) {
	if len(blocks) == 0 {
		return Cut{Device: []int{0}, Cause: []string{"automatic: the graph has no layers to cut at"}}, nil
	}
	pl := place.Nodes(idx, len(blocks), nodes.OneGroupEach(blocks))
	if err := idx.Stop.Err(); err != nil {
		return Cut{}, err
	}
	groups, allowed := segment.NewGroups(idx, pl), AllowedCuts(idx, pl)
	want, fewer := stageCount(blocks, allowed, o)
	if fewer != nil && o.Pipeline.Order != nil {
		return Cut{}, fmt.Errorf("%w: the schedule is for %d stages: %v", ErrStages, o.Pipeline.Order.Stages, fewer)
	}
	c, err := newStageSearch(groups, blocks, allowed, o)
	if err != nil {
		return Cut{}, err
	}
	way, err := c.best(want, groupsOf(allowed))
	if err != nil {
		return Cut{}, err
	}
	if fewer == nil && len(way.Devices) < want {
		fewer = &Fewer{Asked: want, Devices: true, Stages: len(way.Devices), Blocks: len(blocks), Unsupported: true}
	}
	return c.result(way, fewer), nil
}

// AllowedCuts tells for each i whether a stage may begin with block i: not
// where a forward value would go back to an earlier block.
func AllowedCuts(idx *nodes.Index, pl *place.Placement) []bool {
	change := make([]int, pl.Groups+2) // of the number of values that go back across each cut, from the cut before
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		for _, v := range n.In {
			if n.Phase != graph.Forward || v.Kind != graph.Computed {
				continue
			}
			if from, to := pl.Node[v.Node.ID], pl.Node[n.ID]; from > to {
				change[to+1]++
				change[from+1]--
			}
		}
	}
	allowed, back := make([]bool, pl.Groups+1), 0
	for i := range allowed {
		back += change[i]
		allowed[i] = back == 0
	}
	return allowed
}

// stageCount is the number of stages. The second result is nil if it is the number
// asked for.
func stageCount(blocks []string, allowed []bool, o Options) (int, *Fewer) {
	f := &Fewer{Asked: o.Count, Stages: 1, Blocks: len(blocks)}
	for _, ok := range allowed[1:len(blocks)] {
		if ok {
			f.Stages++
		}
	}
	if f.Devices = o.Count == 0; f.Devices {
		f.Asked = o.Pipeline.Stages(f.Stages)
	}
	if f.Asked <= f.Stages {
		return f.Asked, nil
	}
	return f.Stages, f
}

// Choose is pass 3: by hand as asked, or automatic.
func Choose(idx *nodes.Index, blocks []string, o Options) (Cut, error) {
	if err := checkPins(blocks, o); err != nil {
		return Cut{}, err
	}
	if o.Stages != nil {
		c, err := cutByHand(blocks, o)
		if err != nil {
			return c, err
		}
		return c, checkSupport(idx, c, o)
	}
	return cutAutomatically(idx, blocks, o)
}
