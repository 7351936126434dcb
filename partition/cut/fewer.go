package cut

import (
	"fmt"

	"github.com/berth-ml/berth/internal/units"
)

// Fewer tells why a plan has fewer stages than asked for: there are not enough
// blocks, or not enough boundaries between them where a stage can end.
type Fewer struct {
	Asked   int  // stages: PlanOptions.Count, or the number of devices
	Devices bool // one per device was asked for, by no number of stages
	Stages  int  // as many as there are
	Blocks  int  // of the model; more than Stages where some cannot be cut apart
	// Unsupported tells that there would be blocks enough, if devices ran them.
	Unsupported bool
}

// String is a cause in a few words: "3 stages asked for but only 2 blocks".
func (f *Fewer) String() string {
	noun := "stages asked for"
	if f.Devices {
		noun = "devices"
	}
	switch {
	case f.Unsupported:
		return fmt.Sprintf("%d %s but not every one has a block that it runs", f.Asked, noun)
	case f.Blocks == 1:
		return fmt.Sprintf("%d %s but only 1 block", f.Asked, noun)
	case f.Stages == 1:
		return fmt.Sprintf("%d %s but the blocks cannot be cut apart", f.Asked, noun)
	case f.Stages < f.Blocks:
		return fmt.Sprintf("%d %s but the blocks can only be cut into %d stages", f.Asked, noun, f.Stages)
	}
	return fmt.Sprintf("%d %s but only %d blocks", f.Asked, noun, f.Blocks)
}

// Note is a sentence for people, with the number of stages that are used.
func (f *Fewer) Note() string {
	asked, cuts := "asked for "+units.Count(f.Asked, "stage"), "the model has "+units.Count(f.Blocks, "block")
	if f.Devices {
		asked = fmt.Sprintf("there are %s", units.Count(f.Asked, "device"))
	}
	if f.Unsupported {
		cuts = "not every one has a block that it runs"
	} else if f.Stages < f.Blocks {
		cuts = fmt.Sprintf("the model's %d blocks can be cut in %s only", f.Blocks, units.Count(f.Stages-1, "place"))
	}
	used := "stages are used"
	if f.Stages == 1 {
		used = "stage is used"
	}
	return fmt.Sprintf("%s, %s: %d %s", asked, cuts, f.Stages, used)
}
