package residency

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
)

// fence is a set of events, at most one per queue: a queue works in order, so
// its latest event stands for the earlier ones. Its memory is kept when it is
// emptied, so that steady state allocates nothing.
type fence []device.Event

// add puts e in, in the place of an earlier event of the same queue.
func (f *fence) add(e device.Event) {
	if e.Queue == nil {
		return
	}
	for i := range *f {
		if (*f)[i].Queue == e.Queue {
			(*f)[i].Seq = max((*f)[i].Seq, e.Seq)
			return
		}
	}
	*f = append(*f, e)
}

// done reports whether all has ended.
func (f fence) done() bool {
	for _, e := range f {
		if !e.Done() {
			return false
		}
	}
	return true
}

// ended waits on the host until e has ended, well or not. Its error is ctx's.
func ended(ctx context.Context, e device.Event) error {
	if e.Wait(ctx) != nil && !e.Done() {
		return ctx.Err()
	}
	return nil
}
