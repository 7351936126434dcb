package balance

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Clock takes how long devices work between launches that somebody wants to know of. The streams of devices tell it of each
// operation as it ends, which may be before anybody could ask for that one: so it keeps the newest of each
// device. It is safe for concurrent use, and allocates nothing after Begin. The zero value takes nothing.
type Clock struct {
	on      atomic.Bool
	mu      sync.Mutex
	devices map[device.ID]*launches
}

// launches are those of a device, which end in the order in which they are queued.
type launches struct {
	worked time.Duration // of all that have ended
	newest mark          // that has ended
	wanted []mark
}

// mark is a launch that somebody wants to know of.
type mark struct {
	event device.Event
	ran   Launch // zero until it has ended
}

// Launch is a launch that ended.
type Launch struct {
	Start  time.Time     // later by the time that it waited half-way
	Worked time.Duration // for which its device had worked when it ended: in launches, without their waits
	Took   time.Duration // of that time, its own
}

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
	took := s.End.Sub(s.Start) - s.Waited
	l.worked += took
	l.newest = mark{s.Event, Launch{Start: s.Start.Add(s.Waited), Worked: l.worked, Took: took}}
	for i := range l.wanted {
		if m := &l.wanted[i]; m.event == s.Event {
			*m = l.newest
		}
	}
}

// Want asks for the newest launch of a device, as one of its marks. No other launch may have been queued
// on the device since.
func (c *Clock) Want(id device.ID, number int, launch device.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.devices[id]
	if m := &l.wanted[number]; l.newest.event == launch { // it has ended already
		*m = l.newest
	} else {
		*m = mark{event: launch}
	}
}

// Ran is a launch that was wanted; zero where it never ran.
func (c *Clock) Ran(id device.ID, number int) Launch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.devices[id].wanted[number].ran
}
