package copies

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// Origin is the events by which the contents of a buffer came about. It belongs to the
// record of that buffer, whose lock guards it.
//
// Contents that were copied are right if three things have gone well: the copy, the copies
// before it, and the task that wrote them first. Many tensors share a copy queue, so a copy
// waits only until these have ended, well or not. Their events go along with the contents as
// causes, for those who read them to check.
//
// A task that fails, or is skipped, leaves the contents from before. A copy that fails leaves
// other bytes. So the contents from before are still there if the copies that carried them
// since then went well, whatever became of the tasks.
type Origin struct {
	Ready   device.Event // of the last write or copy into the buffer; of the taking, before there was one
	Moved   device.Event // of the move within the device that brought the contents to this buffer since
	causes  device.Fence // if Ready is a copy's, the events by which its source was made; they end before it
	carried device.Fence // the copies that carried the contents here, unless they are known to have ended well
}

// Written records that a task wrote the contents, which are there once done has ended well.
// Should it fail, those from before are left; anew tells that there were none. With the zero
// Event nothing was queued: the events before it still count.
func (o *Origin) Written(done device.Event, anew bool) {
	if anew {
		o.carried.Add(done)
	}
	carry(&o.carried, o.carried, o.Moved)
	if done.Queue != nil {
		o.Ready, o.Moved, o.causes = done, device.Event{}, o.causes[:0]
	}
}

// Copied records that the contents are a copy of those with another origin, once done has ended
// well.
func (o *Origin) Copied(from *Origin, done device.Event) {
	o.Ready, o.Moved = done, device.Event{}
	from.Makers(&o.causes)
	carry(&o.carried, from.carried, from.Moved)
	o.carried.Add(done)
}

// Clear forgets all events.
func (o *Origin) Clear() {
	o.Settle()
	o.Moved, o.carried = device.Event{}, o.carried[:0]
}

// Settle forgets the last write or copy, and its causes, which have ended well.
func (o *Origin) Settle() { o.Ready, o.causes = device.Event{}, o.causes[:0] }

// Makers sets to to the events by which the contents were made, but for those that are known
// to have ended well. Causes come before what they cause.
func (o *Origin) Makers(to *device.Fence) { carry(to, o.causes, o.Ready, o.Moved) }

// Carriers lists the copies that carried the contents since a task wrote them first, but for
// those that are known to have ended well.
func (o *Origin) Carriers() device.Fence {
	list := slices.Clone(o.carried)
	if !well(o.Moved) {
		list.Add(o.Moved)
	}
	return list
}

// Failure is the reason for which the contents are known not to be right; nil if none is
// known. The first event that failed is the cause of the others' failures.
func (o *Origin) Failure() error {
	for _, e := range o.causes {
		if err := e.Err(); err != nil {
			return err
		}
	}
	if err := o.Ready.Err(); err != nil {
		return err
	}
	return o.Moved.Err() // its device was given up before
}

// carry sets to to those of the events that are not known to have ended well.
func carry(to *device.Fence, events device.Fence, more ...device.Event) {
	*to = (*to)[:0]
	for _, e := range events {
		if !well(e) {
			to.Add(e)
		}
	}
	for _, e := range more {
		if !well(e) {
			to.Add(e)
		}
	}
}

// well reports whether an event is known to have ended well.
func well(e device.Event) bool { return e.Done() && e.Err() == nil }
