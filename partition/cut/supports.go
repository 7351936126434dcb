package cut

import (
	"fmt"

	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
)

// refusals are the reasons for which devices do not run blocks, by device and block; nil
// where they run them. Movable nodes count if movable is true.
func refusals(g *segment.Groups, o *Options, movable bool) [][]error {
	all := make([][]error, len(o.Devices))
	for d := range all {
		all[d] = make([]error, len(g.All))
		for i := range g.All {
			all[d][i] = refusal(g, i, d, o.Supports, movable)
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
