package streams

import "github.com/berth-ml/berth/engine/device"

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
