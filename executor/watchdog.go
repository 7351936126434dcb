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

// watchdog gives up devices whose operations do not end.
type watchdog struct {
	devs    []device.Device
	timeout time.Duration
	stop    chan struct{}
	stopped chan struct{}
}

// Watch gives up each device on which one operation runs for longer than timeout:
// what is queued there fails, with an error that names the operation. 0 is no
// timeout. Watching ends with Close. A second call does nothing.
func (r *Runtime) Watch(timeout time.Duration) {
	if timeout <= 0 || r.watching != nil || r.closed {
		return
	}
	r.watching = &watchdog{devs: r.Devices, timeout: timeout, stop: make(chan struct{}), stopped: make(chan struct{})}
	go r.watching.run()
}

// run looks at the devices until end is called.
func (w *watchdog) run() {
	defer close(w.stopped)
	tick := time.NewTicker(min(max(w.timeout/8, leastLook), mostLook))
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		for _, d := range w.devs {
			w.look(d)
		}
	}
}

// look gives a device up if an operation runs for too long.
func (w *watchdog) look(d device.Device) {
	c, ok := d.Running()
	if ok && time.Since(c.Since) > w.timeout {
		d.GiveUp(&HangError{Device: d.ID(), Command: c, Timeout: w.timeout})
	}
}

// end stops watching. A nil watchdog watches nothing.
func (w *watchdog) end() {
	if w != nil {
		close(w.stop)
		<-w.stopped
	}
}
