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

// prune takes out what has ended.
func (f *fence) prune() {
	kept := (*f)[:0]
	for _, e := range *f {
		if !e.Done() {
			kept = append(kept, e)
		}
	}
	*f = kept
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

// holdBack makes stream s wait for what has not ended yet. Failures are not
// passed on: who reads failed contents is told by their ready event.
func (f fence) holdBack(s device.Stream) error {
	for _, e := range f {
		if e.Done() {
			continue
		}
		if err := s.WaitFor(e); err != nil {
			return err
		}
	}
	return nil
}

// ended waits on the host until e has ended, well or not. Its error is ctx's.
func ended(ctx context.Context, e device.Event) error {
	if e.Wait(ctx) != nil && !e.Done() {
		return ctx.Err()
	}
	return nil
}
