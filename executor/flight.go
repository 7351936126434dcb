package executor

import "github.com/berth-ml/berth/engine/device"

// flight is a step that was queued and not yet waited for.
type flight struct {
	ticket Ticket
	order  uint64 // among the steps of all programs
	e      *expansion
	done   []device.Event // of everything queued, per device
}

// flights are the steps of a program that are under way; e is nil in those that
// are over.
type flights [ahead]flight

// of is where the step of a ticket is, or the one ahead steps before it.
func (f *flights) of(t Ticket) *flight { return &f[t%ahead] }

// slot is the index of the step among the last ones that ran a task.
func (f *flight) slot() int { return int(f.ticket % ahead) }

// depart begins a step.
func (f *flight) depart(t Ticket, order uint64, e *expansion) {
	f.ticket, f.order, f.e, f.done = t, order, e, f.done[:0]
	for _, t := range e.tasks {
		t.events[f.slot()] = device.Event{}
	}
}

// failed is the failure of a task of the step.
func (f *flight) failed(t *task, err error) error {
	return &TaskError{Step: f.ticket, Task: t.name, Device: t.device, Microbatch: t.microbatch, Err: err}
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
