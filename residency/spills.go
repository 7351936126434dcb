package residency

import (
	"fmt"
	"slices"
	"strings"

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

// Lost is an ErrLost that names the tenant's tensors whose spills have failed, and
// the cause; nil if none has.
func (u *Tenant) Lost() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var names []string
	var from string
	var cause error
	for _, x := range u.spills {
		if err := x.copied.Err(); err != nil {
			names = append(names, x.t.name)
			from, cause = x.from, err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the spill of %s from %s failed: %w", ErrLost, strings.Join(names, ", "), from, cause)
}
