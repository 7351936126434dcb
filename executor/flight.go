package executor

import "github.com/berth-ml/berth/engine/device"

// flight is a step that has been queued and not been waited for yet.
type flight struct {
	ticket Ticket
	order  uint64 // among the steps of all programs
	e      *expansion
	done   []device.Event // of all tasks queued, per device, then of the copies between devices
}

// flights are the last steps of a program. A step that is over has no e.
type flights [ahead]flight

// of is the flight of a ticket. Until the step departs, it is still that of the
// step with the ticket t-ahead.
func (f *flights) of(t Ticket) *flight { return &f[t%ahead] }

// slot is the index of the step in lists of ahead entries, such as task.events.
func (f *flight) slot() int { return int(f.ticket % ahead) }

// depart begins a step. Nothing of it is queued yet.
func (f *flight) depart(t Ticket, order uint64, e *expansion) {
	f.ticket, f.order, f.e, f.done = t, order, e, f.done[:0]
	for _, t := range e.tasks {
		t.events[f.slot()] = device.Event{}
	}
}

// failed words the failure err of a task of the step.
func (f *flight) failed(t *task, err error) error {
	return &TaskError{
		Net: f.e.net, Step: f.ticket, Task: t.name, Device: t.device, Microbatch: t.microbatch,
		Action: t.action, Schedule: f.e.schedule, Err: err, launch: t.exe.Graph().Name,
	}
}

// firstFailure is the failure of the first task that failed, nil if none did.
func (f *flight) firstFailure() error {
	for _, t := range f.e.tasks {
		if cause := t.events[f.slot()].Err(); cause != nil {
			return f.failed(t, cause)
		}
	}
	return nil
}

// halfUpdated reports whether a part of the update was queued.
func (f *flight) halfUpdated() bool {
	for _, t := range f.e.tasks {
		if t.updates && t.events[f.slot()] != (device.Event{}) {
			return true
		}
	}
	return false
}
