package residency

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
)

// fence is a set of events, at most one per queue: a queue works in order, so
// its latest event stands for the earlier ones. Its memory is kept when it is
// emptied, so that steady state allocates nothing.
type fence []device.Event

// fenceSize is the initial capacity of a fence: a compute stream and the three
// copy streams.
const fenceSize = 4

// add adds e in place of an earlier event of the same queue.
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
	if *f == nil {
		*f = make(fence, 0, fenceSize)
	}
	*f = append(*f, e)
}

// done reports whether all events have ended.
func (f fence) done() bool {
	for _, e := range f {
		if !e.Done() {
			return false
		}
	}
	return true
}

// before reports whether all events will have ended before work that is queued
// in q from now on runs. A nil q stands for any queue.
func (f fence) before(q device.Queue) bool {
	for _, e := range f {
		if e.Queue != q && !e.Done() {
			return false
		}
	}
	return true
}

// left is f without the events that have ended, in the same memory.
func (f fence) left() fence {
	n := 0
	for _, e := range f {
		if !e.Done() {
			f[n] = e
			n++
		}
	}
	clear(f[n:])
	return f[:n]
}

// ended waits on the host until e has succeeded or failed. Its error is ctx's.
func ended(ctx context.Context, e device.Event) error {
	if e.Wait(ctx) != nil && !e.Done() {
		return ctx.Err()
	}
	return nil
}
