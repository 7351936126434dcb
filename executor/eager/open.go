package eager

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// New opens a context that has devices to itself. The first is where ops without
// arguments run. The caller closes it before the devices.
func New(devs []device.Device, o ContextOptions) (*Context, error) {
	if len(devs) == 0 {
		return nil, errors.New("an eager context needs at least one device: open one with device.Open")
	}
	t, err := residency.Open(devs, residency.ManagerOptions{Name: "an op-by-op context"}, residency.TenantOptions{})
	if err != nil {
		return nil, err
	}
	return openContext(t, o)
}

// Join opens a context on devices that it shares with other users of a residency manager, as
// a tenant of that name. Its tensors take the memory that the others leave, and make others leave
// that are not needed soon; its own go to the host where memory is short, and come back when
// they are used. It waits like [residency.Manager.Join].
func Join(ctx context.Context, m *residency.Manager, t residency.TenantOptions, o ContextOptions) (*Context, error) {
	if t.Peaks == nil { // it may take all that there is
		for i, d := range m.Devices() {
			t.Peaks = append(t.Peaks, 0)
			if t.Devices == nil || slices.Contains(t.Devices, i) {
				t.Peaks[i] = d.Spec().MemoryBytes
			}
		}
	}
	u, err := m.Join(ctx, t)
	if err != nil {
		return nil, err
	}
	return openContext(u, o)
}

// openContext opens a context of a tenant, which it closes.
func openContext(t *residency.Tenant, o ContextOptions) (*Context, error) {
	c := &Context{diagnose: o.Diagnose, tenant: t, slots: make(chan struct{}, laneSize), bare: o.Handler == nil, places: o.Places}
	c.era.Store(newEra())
	c.handler = &deviceHandler{c}
	if o.Handler != nil {
		if c.handler = o.Handler(c.handler); c.handler == nil {
			return nil, errors.Join(errors.New("ContextOptions.Handler gives nil: return the handler that it is given, or one around that"), c.Close())
		}
	}
	devs := t.Devices()
	for _, i := range t.Used() {
		l, err := newLane(c, devs[i], i, o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.lanes = append(c.lanes, l)
	}
	c.left = o.Closed
	return c, nil
}

// newLane opens a lane of a context on a device, by its index in the manager's list, and
// starts the lane's goroutine.
func newLane(c *Context, dev device.Device, index int, o ContextOptions) (*lane, error) {
	l := &lane{
		home: home{dev: dev, context: c, memory: memory{
			tenant: c.tenant, device: index, limit: dev.Spec().MemoryBytes / keptPart, pools: map[string]*pool{},
		}},
		cache:   newCache(),
		report:  c.report,
		compile: compileOptions{short: shortSeconds, checkFinite: o.CheckFinite},
		stopped: make(chan struct{}),
	}
	l.work.L, l.room.L = &l.mu, &l.mu
	l.copies = copies{dev: dev, name: c.tenant.StreamName("eager-copy")}
	if l.open(); l.broken != nil {
		return nil, l.broken
	}
	go l.loop()
	return l, nil
}
