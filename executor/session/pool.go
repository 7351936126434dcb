package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/eager"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency"
)

// Pool is devices that several models share. Its methods are safe for concurrent use.
type Pool struct {
	config  configs.Devices
	list    []device.Device
	devices *executor.Devices
	data    datasets.Shelf
	host    int64           // see HostMemory
	whole   configs.Devices // what Reopen opens: config, and devices that could not be opened anew
	missing string          // see Missing

	mu     sync.RWMutex
	lost   []bool           // per device: it was given up
	users  map[string]*user // the runs that are open, by name
	closed bool
}

// user is a run, as the devices know it.
type user struct {
	name  string // on shared devices: the config's, and a number where another run has that
	tell  listener
	calls atomic.Int32 // that use the devices and have not returned
}

// enter keeps the devices open until leave is called. It gives the number of
// calls that use them now.
func (u *user) enter() (calls int32, leave func()) {
	return u.calls.Add(1), func() { u.calls.Add(-1) }
}

// busy reports whether a call uses the devices.
func (u *user) busy() bool { return u.calls.Load() > 0 }

// PoolOptions are the options of OpenPool.
type PoolOptions struct {
	// Faults make operations go wrong, for tests and drills. They count the operations of all
	// runs together.
	Faults []fault.Fault
}

// OpenPool opens the devices of a config. A zero field means the key's default. The caller closes
// them after the runs.
func OpenPool(c configs.Devices, o PoolOptions) (*Pool, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	if ByPercentage(c) {
		return nil, fmt.Errorf("%w: devices.memory is a percentage of what one run takes, but several runs share these devices: give a number of bytes", errs.ErrOptions)
	}
	if err := specs.CheckSpillDir(c, c.Pos); err != nil {
		return nil, err
	}
	return openPool(c, func(list []device.Device) ([]device.Device, error) { return fault.Wrap(list, o.Faults) })
}

// openPool opens the devices of a whole config, which wrap gives their faults.
func openPool(c configs.Devices, wrap func([]device.Device) ([]device.Device, error)) (p *Pool, err error) {
	p = &Pool{config: c, whole: c, users: map[string]*user{}}
	if p.list, err = openDevices(c, listener{p.onSpan, p.wantsSpans, p.onKernel, p.wantsKernels}, ofRank{}); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	p.lost = make([]bool, len(p.list))
	faulty, err := wrap(p.list)
	if err != nil {
		return nil, errors.Join(err, closeAll(p.list))
	}
	p.list = faulty
	o := residency.ManagerOptions{Name: "shared devices", HostBytes: c.HostMemory, SpillDir: cmp.Or(c.SpillDir, os.TempDir())}
	if p.devices, err = executor.NewDevices(p.list, o); err != nil {
		return nil, errors.Join(err, closeAll(p.list))
	}
	p.host = cmp.Or(c.HostMemory, besideDevices(p.list))
	return p, nil
}

// besideDevices is the free memory of the machine, without what the devices may take of it. 0: it is not known.
func besideDevices(list []device.Device) int64 {
	free, err := host.Available()
	if err != nil {
		return 0
	}
	return max(1, free-goHeap-hostVisible(specsOf(list)))
}

// HostMemory is the memory in bytes that the host has for the runs beside these devices: devices.host_memory, or
// else what was free when they were opened. 0: it is not known.
func (p *Pool) HostMemory() int64 {
	if p.checkOpened() != nil {
		return 0
	}
	return p.host
}

// checkOpened refuses a nil Pool, and one that OpenPool did not make.
func (p *Pool) checkOpened() error {
	if p == nil || p.devices == nil {
		return errs.NotOpened("Devices", "OpenDevices")
	}
	return nil
}

// Close closes the devices. It fails if anything on them was not freed, and with
// errs.ErrInUse while a call of a run uses them. A nil or closed Pool has none.
func (p *Pool) Close() error {
	if p.checkOpened() != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	for _, u := range p.users {
		if u.busy() {
			return heldError{u.name}
		}
	}
	p.closed = true
	err := errors.Join(p.devices.Close(), closeAll(p.list))
	if slices.Contains(p.lost, true) {
		err = executor.Unrelated(err) // the runs that lost a device have told
	}
	return err
}

// Reopen opens the same devices anew, once Close has been called. Their faults count
// operations on, so those that have not happened may happen yet. Devices that cannot be opened any more are left
// out, where others of the same or of another kind are left: see [Pool.Missing]. The caller closes them.
func (p *Pool) Reopen() (*Pool, error) {
	if err := p.checkOpened(); err != nil {
		return nil, err
	}
	again := func(list []device.Device) ([]device.Device, error) { return fault.Again(list, p.list), nil }
	next, err := openPool(p.whole, again)
	if err == nil {
		return next, nil
	}
	for _, c := range fewer(p.whole) {
		if next, failed := openPool(c, again); failed == nil {
			next.whole, next.missing = p.whole, err.Error()
			return next, nil
		}
	}
	return nil, err
}

// Missing says why Reopen has left devices out; "": it has not.
func (p *Pool) Missing() string {
	if p.checkOpened() != nil {
		return ""
	}
	return p.missing
}

// Usable lists the devices that are not lost.
func (p *Pool) Usable() (ids []device.ID) {
	if p.checkOpened() != nil {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for i, d := range p.list {
		if !p.lost[i] {
			ids = append(ids, d.ID())
		}
	}
	return ids
}

// Data has the data of the runs that are open on these devices. Those that name the same files and options
// share it in memory.
func (p *Pool) Data() *datasets.Shelf {
	if p.checkOpened() != nil {
		return nil
	}
	return &p.data
}

// Missed says of each fault that did not happen how many such operations there were.
func (p *Pool) Missed() []string {
	if p.checkOpened() != nil {
		return nil
	}
	return fault.Missed(p.list)
}

// Share is a model's part of a pool. A nil Share is none: the model has devices of its own.
type Share struct {
	*Pool
	use []int // indices in the pool's list, ascending
}

// ShareOf is the part of a pool that has the devices of use; nil for all. A nil pool has none.
func ShareOf(p *Pool, use []device.ID) (*Share, error) {
	switch {
	case p == nil && use != nil:
		return nil, fmt.Errorf("%w: Use selects some of the shared Devices, but Devices is nil: set Devices, or leave Use out", errs.ErrOptions)
	case p == nil:
		return nil, nil
	}
	if err := p.checkOpened(); err != nil {
		return nil, err
	}
	if err := p.checkUse(use); err != nil {
		return nil, err
	}
	s := &Share{Pool: p}
	for i, d := range p.list {
		if use == nil || slices.Contains(use, d.ID()) {
			s.use = append(s.use, i)
		}
	}
	if len(s.use) == 0 {
		return nil, fmt.Errorf("%w: Use names no device: leave it out for all of %s", errs.ErrOptions, idsOf(p.list))
	}
	return s, nil
}

// checkUse refuses names of devices that the pool does not have, or has lost, and one that is named twice.
func (p *Pool) checkUse(use []device.ID) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for k, id := range use {
		i := slices.IndexFunc(p.list, func(d device.Device) bool { return d.ID() == id })
		switch {
		case i < 0:
			return fmt.Errorf("%w: Use names %s, but the shared Devices are %s: name some of those", errs.ErrOptions, id, idsOf(p.list))
		case slices.Contains(use[:k], id):
			return fmt.Errorf("%w: Use names %s twice: name each device once", errs.ErrOptions, id)
		case p.lost[i]:
			return fmt.Errorf("%w: Use names %s: name others of the shared Devices, or open new ones with OpenDevices", device.ErrLost, id)
		}
	}
	return nil
}

// left lists the devices that are not lost, and the index of each in the config.
func (s *Share) left() (devs []device.Device, at []int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.use {
		if !s.lost[i] {
			devs, at = append(devs, s.list[i]), append(at, i)
		}
	}
	return devs, at
}

// lacks reports whether devices are fewer than those of the share.
func (s *Share) lacks(left []device.Device) bool { return s != nil && len(left) < len(s.use) }

// lose gives up a device that a run has lost: all that others have there fails with
// the same cause, and no other run begins there. A second call does nothing.
func (p *Pool) lose(id device.ID, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(d device.Device) bool { return d.ID() == id })
	if p.lost[i] || p.closed {
		return
	}
	p.lost[i] = true
	p.devices.Lose(i, cause)
}

// isClosed reports whether there were devices that are closed now.
func (s *Share) isClosed() bool {
	if s == nil {
		return false
	}
	p := s.Pool
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.closed
}

// configFor is a model's config on the devices. Of the section devices, it has that of the pool, but for
// memory and the ways to run.
func (s *Share) configFor(c *configs.Config) *configs.Config {
	if s == nil {
		return c
	}
	p := s.Pool
	own, limit := *c, c.Devices.Memory
	own.Devices = p.config
	if c.Devices.OnLoss == configs.OnLossReplan {
		own.Devices.OnLoss = configs.OnLossReplan
	}
	if c.Devices.IsOpByOp() {
		own.Devices.OpByOp = c.Devices.OpByOp
	}
	if c.Devices.Compile == configs.CompileBeside {
		own.Devices.Compile = configs.CompileBeside
	}
	if limit == (configs.Memory{}) {
		return &own
	}
	own.Devices.Memory, own.Devices.Pos = limit, c.Devices.Pos
	own.Devices.Each = slices.Clone(p.config.Each)
	for i := range own.Devices.Each {
		own.Devices.Each[i].Memory, own.Devices.Each[i].Pos = limit, c.Devices.Pos
	}
	return &own
}

// limit lowers the memory to plan with to the one that a run's config allows. at is
// each device's index in the config.
func (p *Pool) limit(specs []device.Spec, at []int, c configs.Devices) {
	each, err := oneByOne(c)
	if err != nil {
		panic("BUG: " + err.Error()) // they were opened
	}
	for i := range specs {
		if n := each[at[i]].Memory.Bytes; n > 0 {
			specs[i].MemoryBytes = min(specs[i].MemoryBytes, n)
		}
	}
}

// enlist names a run after its config, and tells it of its operations from now on.
func (p *Pool) enlist(u *user, config string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("these Devices are %w", errs.ErrClosed)
	}
	u.name = cmp.Or(config, "run")
	for i := 2; p.users[u.name] != nil; i++ {
		u.name = fmt.Sprintf("%s (%d)", cmp.Or(config, "run"), i)
	}
	p.users[u.name] = u
	return nil
}

// dismiss forgets a run.
func (p *Pool) dismiss(u *user) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[u.name] == u { // and not another run, which has that name now
		delete(p.users, u.name)
	}
}

// wantsSpans reports whether a stream is of a user that is told of its operations.
func (p *Pool) wantsSpans(stream string) bool {
	name, _, _ := strings.Cut(stream, ":")
	p.mu.RLock()
	defer p.mu.RUnlock()
	u := p.users[name]
	return u != nil && u.tell.span != nil
}

// onSpan takes an operation of a device.
func (p *Pool) onSpan(x device.Span) {
	name, stream, _ := strings.Cut(x.Stream, ":")
	p.mu.RLock()
	u := p.users[name]
	p.mu.RUnlock()
	if u != nil {
		x.Stream = stream
		u.tell.span(x)
	}
}

// onKernel takes a kernel of a device. A run that traces knows its own launches.
func (p *Pool) onKernel(x device.KernelSpan) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, u := range p.users {
		if u.tell.wantsKernels() {
			u.tell.kernel(x)
		}
	}
}

// wantsKernels reports whether a run traces.
func (p *Pool) wantsKernels() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, u := range p.users {
		if u.tell.wantsKernels() {
			return true
		}
	}
	return false
}

// heldError is the ErrInUse of devices that a model or a context of ops uses.
type heldError struct{ by string }

func (e heldError) Error() string {
	return fmt.Sprintf("the devices are used by %q: close it first, or wait until its methods have returned", e.by)
}

func (e heldError) Unwrap() error { return errs.ErrInUse }

// OpByOp opens a context for single ops on these devices, while runs use them too. The caller
// closes it before the devices. A device on which an operation takes longer than their Timeout
// counts as lost: calls there fail with [device.ErrLost].
func (p *Pool) OpByOp(o eager.ContextOptions) (*eager.Context, error) {
	if err := p.checkOpened(); err != nil {
		return nil, err
	}
	part, err := ShareOf(p, nil)
	if err != nil {
		return nil, err
	}
	u := &user{tell: listener{kernel: func(device.KernelSpan) {}, kernels: func() bool { return false }}}
	if err := p.enlist(u, "op by op"); err != nil {
		return nil, err
	}
	devs, at := part.left()
	_, end := u.enter()
	unwatch, closed := func() {}, o.Closed
	o.Closed = func() {
		unwatch()
		end()
		p.dismiss(u)
		if closed != nil {
			closed()
		}
	}
	c, err := eager.Join(context.Background(), p.devices.Residency(), residency.TenantOptions{Name: u.name, Devices: at}, o)
	if err != nil {
		end()
		p.dismiss(u)
		return nil, fmt.Errorf("op by op: %w", err)
	}
	unwatch = executor.WatchDevices(devs, hangs(p.config))
	return c, nil
}
