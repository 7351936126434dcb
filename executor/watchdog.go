package executor

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// The shortest and the longest time between two looks of a watchdog.
const (
	leastLook = time.Millisecond
	mostLook  = time.Second
)

// DefaultTimeout is the longest that one operation may take on a runtime whose user
// does not call Watch. So every wait ends, also where a device hangs.
const DefaultTimeout = 5 * time.Minute

// defaultTimeout is DefaultTimeout, unless a test shortens it.
var defaultTimeout = DefaultTimeout

// WatchOptions says when a device is given up.
type WatchOptions struct {
	// Timeout is the longest that one operation may take; 0 is no limit.
	Timeout time.Duration
	// Setting is what users raise Timeout with, as errors name it.
	Setting string
	// Stop is closed when whoever uses the runtime wants to end. From then on an
	// operation may take as long as Patience says, which is called once. Nil means
	// never.
	Stop     <-chan struct{}
	Patience func() time.Duration
}

// watchdog gives up devices whose operations do not end. Its runtime owns it.
type watchdog struct {
	WatchOptions
	devs    []device.Device
	limit   time.Duration // that holds now
	from    time.Time     // since when it counts; zero: from each operation's beginning
	looked  time.Time     // last
	resumed time.Time     // when the process went on after a pause; zero: it never paused
	stop    chan struct{}
	stopped chan struct{}
}

// watch starts a watchdog, which end stops.
func watch(devs []device.Device, o WatchOptions) *watchdog {
	w := &watchdog{WatchOptions: o, devs: devs, limit: o.Timeout, looked: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	go w.run()
	return w
}

// WatchDevices is [Runtime.Watch] for devices that work without a runtime, until end
// is called.
func WatchDevices(devs []device.Device, o WatchOptions) (end func()) { return watch(devs, o).end }

// run looks at the devices until end is called.
func (w *watchdog) run() {
	defer close(w.stopped)
	tick := time.NewTicker(w.pace())
	defer tick.Stop()
	asked := w.Stop
	for {
		select {
		case <-w.stop:
			return
		case <-asked:
			asked = nil
			if p := w.Patience(); w.limit <= 0 || p < w.limit {
				w.limit, w.from = p, time.Now()
			}
			tick.Reset(w.pace())
		case <-tick.C:
		}
		w.wake()
		if w.limit > 0 {
			for _, d := range w.devs {
				w.look(d)
			}
		}
	}
}

// wake notices a pause of the whole process, as between Ctrl-Z and fg: no operation
// ran meanwhile, so that they get their time anew.
func (w *watchdog) wake() {
	now := time.Now()
	if now.Sub(w.looked) > max(w.limit/2, 4*w.pace()) {
		w.resumed = now
	}
	w.looked = now
}

// pace is the time between two looks.
func (w *watchdog) pace() time.Duration {
	if w.limit <= 0 {
		return mostLook
	}
	return min(max(w.limit/8, leastLook), mostLook)
}

// look gives a device up if an operation runs for too long.
func (w *watchdog) look(d device.Device) {
	c, ok := d.Running()
	since := c.Since
	for _, t := range []time.Time{w.from, w.resumed} {
		if since.Before(t) {
			since = t
		}
	}
	if ok && time.Since(since) > w.limit {
		d.GiveUp(&HangError{Device: d.ID(), Command: c, Timeout: w.limit, Setting: w.Setting, Stopping: !w.from.IsZero()})
	}
}

// end stops watching. A nil watchdog watches nothing.
func (w *watchdog) end() {
	if w != nil {
		close(w.stop)
		<-w.stopped
	}
}
