package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/edit"
)

// cutByHand is the cut that Stages lists. Every block must be in
// exactly one stage.
func cutByHand(blocks []string, o cutOptions) (cut, error) {
	c := cut{blocks: blocks, stageOf: make([]int, len(blocks)), device: o.pipeline.deal(len(o.stages))}
	for i := range c.stageOf {
		c.stageOf[i] = -1
	}
	for s, names := range o.stages {
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
	}
	if len(o.stages) == 0 {
		return cut{}, fmt.Errorf("%w: the list of stages is empty; leave it out to place automatically", ErrStages)
	}
	if err := c.pin(o); err != nil {
		return cut{}, err
	}
	for s := range o.stages {
		c.cause = append(c.cause, cmp.Or(o.why, "by hand")+pinned(o, o.stages[s])+sharing(c.device, s, o.devices))
	}
	return c, missingBlocks(c)
}

// pin puts stages on the devices that their blocks are pinned to.
func (c *cut) pin(o cutOptions) error {
	if len(o.pin) == 0 {
		return nil
	}
	c.device = slices.Clone(c.device)
	for s, names := range o.stages {
		first := ""
		for _, name := range names {
			d, ok := o.pin[name]
			if ok && first != "" && d != o.pin[first] {
				return fmt.Errorf("%w: stage %d has block %q, which is pinned to %s, and %q, which is pinned to %s; put them in different stages, or pin them to one device",
					ErrStages, s, first, o.devices[o.pin[first]].ID, name, o.devices[d].ID)
			}
			if ok {
				first, c.device[s] = name, d
			}
		}
	}
	return nil
}

// checkPins refuses pins of blocks that there are not.
func checkPins(blocks []string, o cutOptions) error {
	for _, name := range slices.Sorted(maps.Keys(o.pin)) {
		if !slices.Contains(blocks, name) {
			return &PinError{fmt.Errorf("%w: block %q is pinned to %s, and the model does not have it%s; it has %s",
				ErrStages, name, o.devices[o.pin[name]].ID, nearest(name, blocks), strings.Join(blocks, ", "))}
		}
	}
	return nil
}

// pinned names the blocks that are pinned, for the cause of their stage.
func pinned(o cutOptions, blocks []string) string {
	var names []string
	for _, b := range blocks {
		if _, ok := o.pin[b]; ok {
			names = append(names, b)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return ", " + names[0] + " is pinned here"
	}
	return ", " + strings.Join(names, " and ") + " are pinned here"
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
	best := edit.Nearest(name, names, len(name)/2+1)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (nearest: %q)", best)
}
