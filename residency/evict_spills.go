package residency

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
)

// spills is the copies to the host that were queued to evict tensors. The memory of
// such a tensor is taken again once its copy has ended. If that has failed for good, the
// contents are lost, and only this list still knows whose they were. The manager's
// lock guards it.
type spills []spill

// spill is one of them.
type spill struct {
	t      *Tensor
	from   string // device
	copied device.Event
}

// add notes a spill. Before the list grows, it forgets those that lost nothing.
func (s *spills) add(x spill) {
	if len(*s) == cap(*s) {
		*s = slices.DeleteFunc(*s, func(x spill) bool { return x.copied.Done() && x.lost() == nil })
	}
	*s = append(*s, x)
}

// lost is the failure of the spill; nil if it went well, or the tensor has other contents
// by now.
func (x *spill) lost() error {
	if err := x.copied.Err(); err != nil && x.t.failure() != nil {
		return err
	}
	return nil
}

// failure is an ErrLost that names the tensors whose contents were lost; nil if there are
// none.
func (s spills) failure() error {
	var names []string
	var from string
	var cause error
	for i := range s {
		x := &s[i]
		if err := x.lost(); err != nil && !slices.Contains(names, x.t.name) {
			names = append(names, x.t.name)
			from, cause = x.from, err
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: the spill of %s from %s failed: %w", ErrLost, strings.Join(names, ", "), from, cause)
}
