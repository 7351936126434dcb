package partition

import (
	"fmt"

	"github.com/berth-ml/berth/internal/stop"
)

// refusals are the reasons for which devices do not run blocks, by device and block; nil
// where they run them. Movable nodes count if movable is true.
func refusals(g *grouped, o *cutOptions, movable bool) [][]error {
	all := make([][]error, len(o.devices))
	for d := range all {
		all[d] = make([]error, len(g.groups))
		for i := range g.groups {
			all[d][i] = refusal(g, i, d, o.supports, movable)
		}
	}
	return all
}

// refusal is the reason for which a device does not run a group.
func refusal(g *grouped, group, d int, supports Supports, movable bool) error {
	if supports == nil {
		return nil
	}
	for _, nodes := range g.groups[group].nodes {
		for _, n := range stop.Each(g.idx.stop, nodes) {
			if !movable && g.idx.movable(n) {
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
func checkSupport(idx *index, c cut, o cutOptions) error {
	if o.supports == nil || len(c.blocks) == 0 {
		return nil
	}
	g := groupNodes(idx, place(idx, len(c.blocks), oneGroupEach(c.blocks)))
	for i, b := range c.blocks {
		d := c.device[c.stageOf[i]]
		if err := refusal(g, i, d, o.supports, false); err != nil {
			return fmt.Errorf("%w: stage %d has block %q, and %s does not run that: %s; put the block on another device", ErrStages, c.stageOf[i], b, o.devices[d].ID, whyNot(err))
		}
	}
	return nil
}
