package residency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/residency/admission"
	"github.com/berth-ml/berth/residency/hostmem"
)

// ManagerOptions changes how a Manager works.
type ManagerOptions struct {
	// Name is the manager's in errors, such as "the training in runs/a". Empty
	// means "another residency manager".
	Name string
	// StagingBytes bounds the host memory through which stores stream and
	// tensors are moved in; one tensor is let through whatever its size. 0 means
	// DefaultStaging.
	StagingBytes int64
	// HostBytes bounds the host memory of tensors. Further bytes go to a file in
	// SpillDir that has no name. Join takes room for them on its disk. On a system
	// without such files they are refused. 0 means no bound, and no file.
	HostBytes int64
	SpillDir  string
}

// DefaultStaging bounds the host memory of tensors on their way to a device, in
// bytes.
const DefaultStaging = 64 << 20

// Manager moves the tensors of its tenants and remembers where they are: one for a set of
// devices, since only who knows all tensors there can choose which leave. Create with New,
// Close after use.
type Manager struct {
	mu      sync.Mutex // guards the manager, its tenants and all tensors' records
	owner   string     // of its devices, for errors
	devs    []devState
	host    *hostmem.Memory
	tenants []*Tenant             // that have not closed
	names   map[string]bool       // of these, and of those that wait to join
	left    chan struct{}         // closed, and set to nil, when a tenant leaves; nil while nobody waits for that
	floors  *admission.Floors     // the memory that tenants have reserved
	bases   map[string]*base      // that tenants have together, by what they are
	room    sync.Mutex            // held while the file of host memory is resized; taken before mu
	opening sync.WaitGroup        // calls of Join that have their floors
	leases  []*Lease              // that are held
	line    *admission.Line[Need] // calls that wait for leases to end
	clock   uint64                // counts calls of Acquire, for the least recently used
	spare   []*lists              // of attempts, for reuse
	scratch scratch
	shown   atomic.Pointer[[]*Tenant]                 // tenants, for readers without the lock
	audit   func(d *devState, bytes int64, after int) // of a test, when victims were chosen
	closed  bool
}

// scratch is memory that a call uses while it holds the lock, kept so that steady state
// allocates nothing. Its contents mean nothing to the next call.
type scratch struct {
	before     device.Fence // what a copy to the host is to wait for
	compaction compaction
	victims    victims
}

// New makes a manager for devices. They stay the caller's and must outlive it.
// It opens a stream on each, to move copies together. A device has one manager at a
// time: New fails with ErrOwned, and names the other, until that is closed.
func New(devs []device.Device, o ManagerOptions) (*Manager, error) {
	if len(devs) == 0 {
		return nil, errors.New("residency needs at least one device: open one with device.Open")
	}
	m := &Manager{
		owner: cmp.Or(o.Name, "another residency manager"),
		devs:  make([]devState, len(devs)),
	}
	for i, d := range devs {
		m.devs[i] = devState{dev: d, index: i, id: string(d.ID()), spec: d.Spec(), unit: device.MemoryUnit, evictor: device.EvictorOf(d)}
	}
	m.names, m.bases, m.floors, m.line = map[string]bool{}, map[string]*base{}, admission.NewFloors(m.memory()), admission.NewLine(overlap)
	if err := m.own(); err != nil {
		return nil, err
	}
	if err := m.open(o); err != nil {
		err = errors.Join(err, m.endMoves())
		if m.host != nil {
			err = errors.Join(err, m.host.Close())
		}
		m.disown()
		return nil, err
	}
	return m, nil
}

// open makes the host memory, and the streams for moves.
func (m *Manager) open(o ManagerOptions) error {
	h := hostmem.Options{Staging: o.StagingBytes, Bound: o.HostBytes}
	if h.Staging <= 0 {
		h.Staging = DefaultStaging
	}
	if h.Bound > 0 {
		f, err := hostfile.Create(o.SpillDir)
		switch {
		case err == nil:
			h.File = f
		case errors.Is(err, errors.ErrUnsupported): // then the bound is one that nothing may exceed
		default:
			return err
		}
	}
	m.host = hostmem.New(h)
	for i := range m.devs {
		if err := m.devs[i].open(); err != nil {
			return err
		}
	}
	return nil
}

// Open makes a manager for devices with one tenant, which has it to itself. The
// manager closes with the tenant.
func Open(devs []device.Device, m ManagerOptions, t TenantOptions) (*Tenant, error) {
	x, err := New(devs, m)
	if err != nil {
		return nil, err
	}
	u, err := x.Join(context.Background(), t)
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	u.alone = true
	return u, nil
}

// owners knows the manager of every device that has one. A device's memory has one
// manager: two could not make room for each other.
var owners struct {
	mu sync.Mutex
	of map[device.Device]*Manager // by device as it was opened
}

// own makes m the manager of its devices, of all or of none.
func (m *Manager) own() error {
	owners.mu.Lock()
	defer owners.mu.Unlock()
	if owners.of == nil {
		owners.of = map[device.Device]*Manager{}
	}
	for i := range m.devs {
		d := device.Opened(m.devs[i].dev)
		if o := owners.of[d]; o != nil {
			m.disownLocked(i)
			if o == m {
				return fmt.Errorf("%w: %s is in the list twice: name each device once", ErrOwned, m.devs[i].id)
			}
			return fmt.Errorf("%w: %s belongs to %s: share that, or close it first", ErrOwned, m.devs[i].id, o.owner)
		}
		owners.of[d] = m
	}
	return nil
}

// disown gives the devices back.
func (m *Manager) disown() {
	owners.mu.Lock()
	defer owners.mu.Unlock()
	m.disownLocked(len(m.devs))
}

// disownLocked gives the first n devices back.
func (m *Manager) disownLocked(n int) {
	for i := range m.devs[:n] {
		delete(owners.of, device.Opened(m.devs[i].dev))
	}
}

// Close closes the tenants that are left, frees all host memory and closes the
// streams. A second call does nothing.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	m.floors.Close(ErrClosed)
	m.opening.Wait()
	m.mu.Lock()
	tenants := slices.DeleteFunc(slices.Clone(m.tenants), func(u *Tenant) bool { return u.keeps != nil }) // it goes with its last user
	m.mu.Unlock()
	var errs []error
	for _, u := range tenants {
		errs = append(errs, m.dismiss(u))
	}
	errs = append(errs, m.endMoves())
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.devs {
		errs = append(errs, m.devs[i].freeErr)
	}
	errs = append(errs, m.host.Close())
	m.disown()
	return errors.Join(errs...)
}

// endMoves closes the streams that move copies together, which waits for their
// work.
func (m *Manager) endMoves() error {
	var errs []error
	for i := range m.devs {
		if s := m.devs[i].move; s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// Devices lists the devices, in the order that Need.Device counts.
func (m *Manager) Devices() []device.Device {
	list := make([]device.Device, len(m.devs))
	for i := range m.devs {
		list[i] = m.devs[i].dev
	}
	return list
}

// memory is the bytes of each device.
func (m *Manager) memory() []int64 {
	list := make([]int64, len(m.devs))
	for i := range m.devs {
		list[i] = m.devs[i].spec.MemoryBytes
	}
	return list
}

// peaks is the sum of all tenants' peaks on a device.
func (m *Manager) peaks(device int) (bytes int64) {
	for _, u := range m.tenants {
		if device < len(u.opt.Peaks) {
			bytes += u.opt.Peaks[device]
		}
	}
	return bytes
}
