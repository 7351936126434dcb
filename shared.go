package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/residency"
)

// Devices are opened devices on which several models are trained and used at once,
// each from a goroutine of its own. Their weights share the memory: those of a
// model that does nothing give way to another's, and come back. Each model ends
// with the weights that it has alone, and what fails in one fails no other one. The
// methods are safe for concurrent use.
type Devices struct {
	config configs.Devices
	list   []device.Device
	pool   *executor.Devices

	mu     sync.RWMutex
	users  map[string]*setup // the runs that are open, by name
	opened int               // runs so far, to name them
	closed bool
}

// OpenDevices opens the devices of a config, for several runs. The caller closes
// them after the runs.
func OpenDevices(c configs.Devices) (*Devices, error) {
	if byPercentage(c) {
		return nil, fmt.Errorf("%w: devices.memory is a percentage of what one plan takes: give bytes for devices that several runs share", ErrOptions)
	}
	if err := checkSpillDir(c); err != nil {
		return nil, err
	}
	level, err := trace.LevelAsked()
	if err != nil {
		return nil, err
	}
	d := &Devices{config: c, users: map[string]*setup{}}
	if d.list, err = openDevices(c, level, d.onSpan); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	o := residency.ManagerOptions{Name: "shared devices", HostBytes: c.HostMemory, SpillDir: cmp.Or(c.SpillDir, os.TempDir()), Evict: paging.Rule(c.Evict)}
	if d.pool, err = executor.NewDevices(d.list, o); err != nil {
		return nil, errors.Join(err, closeAll(d.list))
	}
	return d, nil
}

// Open is the function Open on these devices. Of the config's section devices it
// uses memory alone: that much of each device its plan counts on; without it, the
// whole device. [Run.Train] and the other calls wait until the devices have the
// floor of the run's plan free beside those of the other calls: of the calls that
// wait, the first one goes on first. The loss of a device ends the call, whatever
// devices.on_device_loss says.
func (d *Devices) Open(ctx context.Context, c *configs.Config) (*Run, error) {
	return open(ctx, c, d)
}

// OpenTrained is the function OpenTrained on these devices, as Open is.
func (d *Devices) OpenTrained(ctx context.Context, c *configs.Config, w Weights) (*Trained, error) {
	return openTrained(ctx, c, w, d)
}

// Close closes the devices. It fails if anything on them was not freed, and with
// ErrInUse while a call of a run uses them.
func (d *Devices) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	for _, s := range d.users {
		if s.calls.Load() > 0 {
			return ErrInUse
		}
	}
	d.closed = true
	return errors.Join(d.pool.Close(), closeAll(d.list))
}

// isClosed reports whether there were devices that are closed now.
func (d *Devices) isClosed() bool {
	if d == nil {
		return false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.closed
}

// configFor is a run's config on the devices. Without devices, it is c.
func (d *Devices) configFor(c *configs.Config) *configs.Config {
	if d == nil {
		return c
	}
	own, limit := *c, c.Devices.Memory
	own.Devices = d.config
	if limit == (configs.Memory{}) {
		return &own
	}
	own.Devices.Memory, own.Devices.Pos = limit, c.Devices.Pos
	own.Devices.Each = slices.Clone(d.config.Each)
	for i := range own.Devices.Each {
		own.Devices.Each[i].Memory, own.Devices.Each[i].Pos = limit, c.Devices.Pos
	}
	return &own
}

// limit lowers the memory to plan with to the one that a run's config allows.
func (d *Devices) limit(specs []device.Spec, c configs.Devices) {
	each, err := oneByOne(c)
	if err != nil {
		panic("BUG: " + err.Error()) // they were opened
	}
	for i := range specs {
		if n := each[i].Memory.Bytes; n > 0 {
			specs[i].MemoryBytes = min(specs[i].MemoryBytes, n)
		}
	}
}

// enlist names a run, and tells it of its operations from now on.
func (d *Devices) enlist(s *setup) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if s.name == "" {
		d.opened++
		s.name = fmt.Sprintf("run%d", d.opened)
	}
	d.users[s.name] = s
	return nil
}

// dismiss forgets a run.
func (d *Devices) dismiss(s *setup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.users, s.name)
}

// onSpan takes an operation of a device.
func (d *Devices) onSpan(x device.Span) {
	name, stream, _ := strings.Cut(x.Stream, ":")
	d.mu.RLock()
	s := d.users[name]
	d.mu.RUnlock()
	if s != nil {
		x.Stream = stream
		s.onSpan(x)
	}
}
