package residency

import "github.com/berth-ml/berth/engine/device"

// Contents that were copied are right if three things have gone well: the copy,
// the copies before it, and the task that wrote them first. A copy stream is shared
// by many tensors, so a copy waits only until these have ended, well or not. Their
// events go along with the contents as causes, for those who read them to check.

// inherit sets causes to the events by which contents were made that are copied now:
// last and those before it. It leaves out those that are known to have gone well.
func inherit(causes *device.Fence, last device.Event, before device.Fence) {
	*causes = (*causes)[:0]
	for _, e := range before {
		if !e.Done() || e.Err() != nil {
			causes.Add(e)
		}
	}
	if !last.Done() || last.Err() != nil {
		causes.Add(last)
	}
}

// firstFailure is the failure of contents that were made by these events; nil if
// none is known.
func firstFailure(last device.Event, before device.Fence) error {
	for _, e := range before {
		if err := e.Err(); err != nil {
			return err
		}
	}
	return last.Err()
}
