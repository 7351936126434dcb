package residency

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// spills is the copies to the host that were queued to evict tensors. The memory of
// such a tensor is taken again before its copy has ended. If the copy fails, the
// contents are lost, and only this list still knows whose they were. The manager's
// lock guards it.
type spills []spill

// spill is one of them.
type spill struct {
	t      *Tensor
	from   string // device
	copied device.Event
}

// add notes a spill, and forgets old ones that went well.
func (s *spills) add(x spill) {
	done := 0
	for done < len(*s) && (*s)[done].copied.Done() && (*s)[done].copied.Err() == nil {
		done++
	}
	if 2*done >= len(*s) {
		*s = slices.Delete(*s, 0, done)
	}
	*s = append(*s, x)
}
