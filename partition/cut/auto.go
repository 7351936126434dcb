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
// alone, and the plan is refused with the missing bytes.
func cutAutomatically(idx *nodes.Index, blocks []string, o Options) (Cut, error) {
	if len(blocks) == 0 {
		return Cut{Device: []int{0}, Cause: []string{"automatic: the graph has no layers to cut at"}}, nil
	}
	pl := place.Nodes(idx, len(blocks), nodes.OneGroupEach(blocks))
	if err := idx.Stop.Err(); err != nil {
		return Cut{}, err
	}
	groups, allowed := segment.NewGroups(idx, pl), AllowedCuts(idx, pl)
	for i := 1; i < len(blocks); i++ {
		allowed[i] = allowed[i] && o.Pieces.Whole(blocks[i]) != o.Pieces.Whole(blocks[i-1])
	}
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
		fewer = &Fewer{Asked: want, Devices: true, Stages: len(way.Devices), Blocks: len(o.Pieces.Blocks(blocks)), Unsupported: true}
	}
	return c.result(way, fewer), nil
}

// AllowedCuts tells for each i whether a stage may begin with block i: not
// where a forward value would go back to an earlier block. From block from to block to, it forbids
// the cuts before the blocks to+1 to from: it is counted where these begin and end, and then summed up.
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
	f := &Fewer{Asked: o.Count, Stages: 1, Blocks: len(o.Pieces.Blocks(blocks))}
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

// Choose is the pass: a cut by hand as asked, or an automatic one.
func Choose(idx *nodes.Index, blocks []string, o Options) (Cut, error) {
	ids := map[string]string{}
	for name, d := range o.Pin {
		ids[name] = string(o.Devices[d].ID)
	}
	if err := CheckPins(idx.Graph, o.Pieces, ids); err != nil {
		return Cut{}, err
	}
	var c Cut
	var err error
	if o.Stages != nil {
		c, err = cutByHand(blocks, o)
	} else {
		c, err = cutAutomatically(idx, blocks, o)
	}
	if err != nil {
		return Cut{}, err
	}
	if err := checkApart(idx, c, o); err != nil || o.Stages == nil {
		return c, err
	}
	return c, checkSupport(idx, c, o)
}

// refusals are the reasons for which devices do not run blocks, by device and block; nil
// where they run them. Movable nodes count if movable is true.
func refusals(g *segment.Groups, blocks []string, o *Options, movable bool) [][]error {
	all := make([][]error, len(o.Devices))
	for d := range all {
		all[d] = make([]error, len(g.All))
		for i := range g.All {
			if _, pinned := o.Ops[blocks[i]]; !pinned { // which is on its own device
				all[d][i] = refusal(g, i, d, o.Supports, movable)
			}
		}
	}
	return all
}

// refusal is the reason for which a device does not run a group.
func refusal(g *segment.Groups, group, d int, supports place.Supports, movable bool) error {
	if supports == nil {
		return nil
	}
	for _, nodes := range g.All[group].Nodes {
		for _, n := range stop.Each(g.Index.Stop, nodes) {
			if !movable && g.Index.Movable(n) {
				continue
			}
			if err := supports(d, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSupport refuses a cut by hand with a block on a device that does not run it.
func checkSupport(idx *nodes.Index, c Cut, o Options) error {
	if o.Supports == nil || len(c.Blocks) == 0 {
		return nil
	}
	g := segment.GroupNodes(idx, place.Nodes(idx, len(c.Blocks), nodes.OneGroupEach(c.Blocks)))
	for i, b := range c.Blocks {
		d := c.Device[c.StageOf[i]]
		if err := refusal(g, i, d, o.Supports, false); err != nil {
			return fmt.Errorf("%w: stage %d has block %q, and %s does not run that: %s; put the block on another device", ErrStages, c.StageOf[i], b, o.Devices[d].ID, WhyNot(err))
		}
	}
	return nil
}
