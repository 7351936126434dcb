package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/edit"
)

// cutByHand is the cut that PlanOptions.Stages lists. Every block must be in
// exactly one stage.
func cutByHand(blocks []string, o PlanOptions) (cut, error) {
	c := cut{blocks: blocks, stageOf: make([]int, len(blocks)), device: o.deal(len(o.Stages))}
	for i := range c.stageOf {
		c.stageOf[i] = -1
	}
	for s, names := range o.Stages {
		if len(names) == 0 {
			return cut{}, fmt.Errorf("%w: stage %d has no blocks; name at least one of %s", ErrStages, s, strings.Join(blocks, ", "))
		}
		for _, name := range names {
			i := slices.Index(blocks, name)
			if i < 0 {
				return cut{}, fmt.Errorf("%w: stage %d names a block %q that the model does not have%s; it has %s", ErrStages, s, name, nearest(name, blocks), strings.Join(blocks, ", "))
			}
			if c.stageOf[i] >= 0 {
				return cut{}, fmt.Errorf("%w: block %q is in stage %d and again in stage %d; name it once", ErrStages, name, c.stageOf[i], s)
			}
			c.stageOf[i] = s
		}
		c.cause = append(c.cause, "by hand"+sharing(c.device, s, o.Devices))
	}
	if len(o.Stages) == 0 {
		return cut{}, fmt.Errorf("%w: the list of stages is empty; leave it out to place automatically", ErrStages)
	}
	return c, missingBlocks(c)
}

func missingBlocks(c cut) error {
	var missing []string
	for i, s := range c.stageOf {
		if s < 0 {
			missing = append(missing, c.blocks[i])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: no stage names %s; every block must be in one", ErrStages, strings.Join(missing, ", "))
	}
	return nil
}

// nearest suggests the name with the smallest distance, "" if none is near.
func nearest(name string, names []string) string {
	best, at := "", len(name)/2+2
	for _, n := range names {
		if d := edit.Distance(name, n); d < at {
			best, at = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (nearest: %q)", best)
}
