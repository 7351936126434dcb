package trace

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// StreamIn is an operation of the host: it reads contents that a device needs from a
// store, such as a file of weights.
const StreamIn = "stream-in"

// copyOps are the operations that copy, as in device.Span.
var copyOps = [...]string{"copy-in", "copy-out", "peer", "move", StreamIn}

// Copies measures the copies of all devices: how long they ran while a launch
// ran on their device, and how long without one. It is safe for concurrent use,
// measures nothing before Begin, and allocates nothing in steady state.
type Copies struct {
	mu      sync.Mutex
	on      bool
	devices map[device.ID]*deviceCopies
}

// CopyTime is the time of copies, summed over the devices.
type CopyTime struct {
	Hidden  time.Duration // a launch ran on the device meanwhile
	Exposed time.Duration // none did, or the one that had begun waited for copies
}

// Begin starts measuring, or goes on after Stop.
func (c *Copies) Begin() { c.set(true) }

// Stop ends measuring until Begin. Operations that are under way count.
func (c *Copies) Stop() { c.set(false) }

func (c *Copies) set(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = on
}

// Restart forgets what was measured.
func (c *Copies) Restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.devices {
		d.open, d.time = d.open[:0], CopyTime{}
	}
}

// Time is what was measured so far.
func (c *Copies) Time() (sum CopyTime) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.devices {
		d.settle(true)
		sum.Hidden += d.time.Hidden
		sum.Exposed += d.time.Exposed
	}
	return sum
}

// Add is called by the streams of devices, for each operation.
func (c *Copies) Add(s device.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.devices[s.Device]
	if d == nil {
		if c.devices == nil {
			c.devices = map[device.ID]*deviceCopies{}
		}
		d = &deviceCopies{}
		c.devices[s.Device] = d
	}
	switch {
	case s.Stream == device.ComputeStream:
		d.launches[d.n%len(d.launches)] = launch{interval{s.Start, s.End}, s.Waited}
		d.n++
		d.settle(false)
	case c.on && slices.Contains(copyOps[:], s.What):
		d.open = append(d.open, interval{s.Start, s.End})
		if len(d.open) > mostOpen {
			d.settle(true)
		}
	}
}

// interval is a range of time.
type interval struct{ start, end time.Time }

// launch is a launch, and the time in it that no copy was counted for yet in which it
// waited for copies.
type launch struct {
	interval
	waited time.Duration
}

// mostOpen bounds the copies that wait for the end of a launch.
const mostOpen = 1 << 10

// deviceCopies compares the copies of a device with its launches.
type deviceCopies struct {
	launches [1 << 8]launch // the newest, a ring
	n        int            // launches so far
	open     []interval     // copies during which a launch may still run
	time     CopyTime       // of the other copies
}

// settle counts the copies that ended before the newest launch, or all of them.
func (d *deviceCopies) settle(all bool) {
	var until time.Time
	if d.n > 0 {
		until = d.launches[(d.n-1)%len(d.launches)].end
	}
	rest := d.open[:0]
	for _, c := range d.open {
		if !all && c.end.After(until) {
			rest = append(rest, c)
			continue
		}
		hidden := d.hidden(c)
		d.time.Hidden += hidden
		d.time.Exposed += c.end.Sub(c.start) - hidden
	}
	d.open = rest
}

// hidden is the part of a copy's time in which the device also ran launches.
func (d *deviceCopies) hidden(c interval) (sum time.Duration) {
	for i := d.n - 1; i >= max(0, d.n-len(d.launches)); i-- {
		l := &d.launches[i%len(d.launches)]
		start, end := l.start, l.end
		if !end.After(c.start) {
			break
		}
		if start.Before(c.start) {
			start = c.start
		}
		if end.After(c.end) {
			end = c.end
		}
		both := max(0, end.Sub(start))
		waited := min(both, l.waited)
		l.waited -= waited
		sum += both - waited
	}
	return sum
}
