package cut

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
func cutByHand(blocks []string, o Options) (Cut, error) {
	c := Cut{Blocks: blocks, StageOf: make([]int, len(blocks)), Device: o.Pipeline.Deal(len(o.Stages))}
	for i := range c.StageOf {
		c.StageOf[i] = -1
	}
	for s, names := range o.Stages {
		if len(names) == 0 {
			return Cut{}, fmt.Errorf("%w: stage %d has no blocks; name at least one of %s", ErrStages, s, strings.Join(blocks, ", "))
		}
		for _, name := range names {
			i := slices.Index(blocks, name)
			if i < 0 {
				return Cut{}, fmt.Errorf("%w: stage %d names a block %q that the model does not have%s; it has %s", ErrStages, s, name, nearest(name, blocks), strings.Join(blocks, ", "))
			}
			if c.StageOf[i] >= 0 {
				return Cut{}, fmt.Errorf("%w: block %q is in stage %d and again in stage %d; name it once", ErrStages, name, c.StageOf[i], s)
			}
			c.StageOf[i] = s
		}
	}
	if len(o.Stages) == 0 {
		return Cut{}, fmt.Errorf("%w: the list of stages is empty; leave it out to place automatically", ErrStages)
	}
	if err := c.pin(o); err != nil {
		return Cut{}, err
	}
	for s := range o.Stages {
		c.Cause = append(c.Cause, cmp.Or(o.Why, "by hand")+pinned(o, o.Stages[s])+sharing(c.Device, s, o.Devices))
	}
	return c, missingBlocks(c)
}

// pin puts stages on the devices that their blocks are pinned to.
func (c *Cut) pin(o Options) error {
	if len(o.Pin) == 0 {
		return nil
	}
	c.Device = slices.Clone(c.Device)
	for s, names := range o.Stages {
		first := ""
		for _, name := range names {
			d, ok := o.Pin[name]
			if ok && first != "" && d != o.Pin[first] {
				return fmt.Errorf("%w: stage %d has block %q, which is pinned to %s, and %q, which is pinned to %s; put them in different stages, or pin them to one device",
					ErrStages, s, first, o.Devices[o.Pin[first]].ID, name, o.Devices[d].ID)
			}
			if ok {
				first, c.Device[s] = name, d
			}
		}
	}
	return nil
}

// checkPins refuses pins of blocks that there are not.
func checkPins(blocks []string, o Options) error {
	for _, name := range slices.Sorted(maps.Keys(o.Pin)) {
		if !slices.Contains(blocks, name) {
			return &PinError{fmt.Errorf("%w: block %q is pinned to %s, but the model has no such block%s; it has %s",
				ErrStages, name, o.Devices[o.Pin[name]].ID, nearest(name, blocks), strings.Join(blocks, ", "))}
		}
	}
	return nil
}

// pinned names the blocks that are pinned, for the cause of their stage.
func pinned(o Options, blocks []string) string {
	var names []string
	for _, b := range blocks {
		if _, ok := o.Pin[b]; ok {
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

func missingBlocks(c Cut) error {
	var missing []string
	for i, s := range c.StageOf {
		if s < 0 {
			missing = append(missing, c.Blocks[i])
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
