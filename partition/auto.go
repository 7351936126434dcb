package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// cutAutomatically finds the contiguous cut, and the order of devices, with the
// fastest step among those that fit; of equally fast ones the first in the order of
// the devices, with the fewest bytes across cuts. If none fits, it balances time
// alone, and checkMemory reports the missing bytes.
func cutAutomatically(idx *index, blocks []string, o cutOptions) (cut, error) {
	if len(blocks) == 0 {
		return cut{device: []int{0}, cause: []string{"automatic: the graph has no layers to cut at"}}, nil
	}
	pl := place(idx, len(blocks), oneGroupEach(blocks))
	if err := idx.stop.Err(); err != nil {
		return cut{}, err
	}
	groups, allowed := readyUnits(idx, pl), allowedCuts(idx, pl)
	want, fewer := stageCount(blocks, allowed, o)
	if fewer != nil && o.pipeline.order != nil {
		return cut{}, fmt.Errorf("%w: the schedule is for %d stages: %v", ErrStages, o.pipeline.order.Stages, fewer)
	}
	c, err := newStageSearch(groups, blocks, allowed, o)
	if err != nil {
		return cut{}, err
	}
	way, err := c.best(want, groupsOf(allowed))
	if err != nil {
		return cut{}, err
	}
	if fewer == nil && len(way.Devices) < want {
		fewer = &Fewer{Asked: want, Devices: true, Stages: len(way.Devices), Blocks: len(blocks), Unsupported: true}
	}
	return c.result(way, fewer), nil
}

// allowedCuts tells for each i whether a stage may begin with block i: not
// where a forward value would go back to an earlier block.
func allowedCuts(idx *index, pl *placement) []bool {
	change := make([]int, pl.groups+2) // of the number of values that go back across each cut, from the cut before
	for _, n := range stop.Each(idx.stop, idx.g.Nodes) {
		for _, v := range n.In {
			if n.Phase != graph.Forward || v.Kind != graph.Computed {
				continue
			}
			if from, to := pl.node[v.Node.ID], pl.node[n.ID]; from > to {
				change[to+1]++
				change[from+1]--
			}
		}
	}
	allowed, back := make([]bool, pl.groups+1), 0
	for i := range allowed {
		back += change[i]
		allowed[i] = back == 0
	}
	return allowed
}

// stageCount is the number of stages. The second result is nil if it is the number
// asked for.
func stageCount(blocks []string, allowed []bool, o cutOptions) (int, *Fewer) {
	f := &Fewer{Asked: o.count, Stages: 1, Blocks: len(blocks)}
	for _, ok := range allowed[1:len(blocks)] {
		if ok {
			f.Stages++
		}
	}
	if f.Devices = o.count == 0; f.Devices {
		f.Asked = o.pipeline.stagesByDefault(f.Stages)
	}
	if f.Asked <= f.Stages {
		return f.Asked, nil
	}
	return f.Stages, f
}

// chooseCut is pass 3: by hand as asked, or automatic.
func chooseCut(idx *index, blocks []string, o cutOptions) (cut, error) {
	if err := checkPins(blocks, o); err != nil {
		return cut{}, err
	}
	if o.stages != nil {
		c, err := cutByHand(blocks, o)
		if err != nil {
			return c, err
		}
		return c, checkSupport(idx, c, o)
	}
	return cutAutomatically(idx, blocks, o)
}
