package balance

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Clock takes when launches ran that somebody wants to know of. The streams of devices tell it of each
// operation as it ends, which may be before anybody could ask for that one: so it keeps the newest of each
// device. It is safe for concurrent use, and allocates nothing after Begin. The zero value takes nothing.
type Clock struct {
	on      atomic.Bool
	mu      sync.Mutex
	devices map[device.ID]*launches
}

// launches are those of a device.
type launches struct {
	newest device.Span // that has ended
	wanted []mark
}

// mark is a launch that somebody wants to know of.
type mark struct {
	event      device.Event
	start, end time.Time // zero until it has ended; the start is later by the time that it waited half-way
}

// ran notes the launch.
func (m *mark) ran(s device.Span) { m.start, m.end = s.Start.Add(s.Waited), s.End }

// Begin takes so many launches at a time of each device from now on.
func (c *Clock) Begin(ids []device.ID, marks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices = map[device.ID]*launches{}
	for _, id := range ids {
		c.devices[id] = &launches{wanted: make([]mark, marks)}
	}
	c.on.Store(true)
}

// Add is called by the streams of devices, for each operation.
func (c *Clock) Add(s device.Span) {
	if !c.on.Load() || s.Stream != device.ComputeStream {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.devices[s.Device]
	if l == nil {
		return
	}
	l.newest = s
	for i := range l.wanted {
		if m := &l.wanted[i]; m.event == s.Event {
			m.ran(s)
		}
	}
}

// Want asks for the newest launch of a device, as one of its marks. No other launch may have been queued
// on the device since.
func (c *Clock) Want(id device.ID, number int, launch device.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.devices[id]
	m := &l.wanted[number]
	*m = mark{event: launch}
	if l.newest.Event == launch { // it has ended already
		m.ran(l.newest)
	}
}

// Ran is when a launch began and ended that was wanted; the times are zero where it never ran.
func (c *Clock) Ran(id device.ID, number int) (start, end time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.devices[id].wanted[number]
	return m.start, m.end
}
