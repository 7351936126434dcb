package eager

import (
	"errors"

	"github.com/berth-ml/berth/engine/device"
)

// New opens a context on devices, of which the first is where ops without
// arguments run. The caller closes it before the devices.
func New(devs []device.Device, o ContextOptions) (*Context, error) {
	if len(devs) == 0 {
		return nil, errors.New("an eager context needs at least one device: open one with device.Open")
	}
	c := &Context{diagnose: o.Diagnose}
	c.era.Store(newEra())
	c.handler = &deviceHandler{c}
	if o.Handler != nil {
		c.handler = o.Handler(c.handler)
	}
	for _, d := range devs {
		l, err := newLane(c, d)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.lanes = append(c.lanes, l)
	}
	return c, nil
}

// newLane opens a lane of a context and starts its goroutine.
func newLane(c *Context, dev device.Device) (*lane, error) {
	l := &lane{
		home:    home{dev: dev, live: &c.live, context: c},
		cache:   newCache(dev),
		report:  c.report,
		stopped: make(chan struct{}),
	}
	l.work.L, l.room.L = &l.mu, &l.mu
	if l.stream, l.broken = dev.NewStream("eager"); l.broken != nil {
		return nil, l.broken
	}
	go l.run()
	return l, nil
}
