package host

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Running is the operation that has run longest.
func (d *Device) Running() (longest device.Command, ok bool) {
	d.heap.mu.Lock()
	defer d.heap.mu.Unlock()
	for _, s := range d.streams {
		if c := s.command(); c.What != "" && (!ok || c.Since.Before(longest.Since)) {
			longest, ok = c, true
		}
	}
	return longest, ok
}

// GiveUp writes the device off.
func (d *Device) GiveUp(cause error) {
	h := d.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil {
		return
	}
	h.lost = cause
	h.stats.WrittenOff = h.stats.Live
	for _, s := range d.streams {
		s.giveUp(cause)
	}
	h.leave() // ends the waits of streams, in which they do not look at their queues
}

// begin notes the command that runs from now on, and returns the one before. what
// is empty if none does.
func (q *queue) begin(what string, now time.Time) (before string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, q.what, q.since = q.what, what, now
	return before
}

// command is the command that runs. Its What is empty if none does.
func (q *queue) command() device.Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	return device.Command{Stream: q.name, What: q.what, Since: q.since}
}

// giveUp makes all that is queued count as ended. The command that runs and
// those after it have failed with the cause.
func (q *queue) giveUp(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = cause
	if q.failed == 0 {
		q.failed, q.err = q.ended.Load()+1, cause
		q.reported = q.failed > q.queued.Load() // nothing met it
	}
	q.finish(allEnded)
	q.work.Signal()
}
