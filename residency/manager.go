package residency

import (
	"fmt"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/admission"
	"github.com/berth-ml/berth/residency/hostmem"
)

// DefaultStaging bounds the host memory of tensors on their way to a device, in
// bytes.
const DefaultStaging = 64 << 20

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

// Manager moves the tensors of its tenants and remembers where they are. Create
// with New, Close after use.
type Manager struct {
	shared
	name    string // of the owner of its devices, for errors
	devs    []devState
	host    *hostmem.Memory
	tenants []*tenant       // that have not closed
	names   map[string]bool // of these, and of those that wait to join
	floors  *admission.Floors
	room    sync.Mutex            // held while the file of host memory is given another size, before the lock
	opening sync.WaitGroup        // calls of Join that have their floors
	leases  []*Lease              // that are held
	line    *admission.Line[Need] // calls that wait for leases to end
	clock   uint64                // counts calls of Acquire, for the least recently used
	spare   []*notes              // of attempts, for reuse
	scratch scratch
	audit   func(d *devState, bytes int64, after int) // of a test, when victims were chosen
	closed  bool
}

// scratch is memory that calls reuse. It means nothing once they give up the lock.
type scratch struct {
	before     device.Fence // what a copy to the host is to wait for
	compaction compaction
	victims    victims
}

// Devices lists the devices, in the order that Need.Device counts.
func (m *Manager) Devices() []device.Device { return m.opened() }

// opened lists the devices.
func (m *Manager) opened() []device.Device {
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

// Drop discards the contents: every copy and the host's bytes are freed. The
// record stays, without contents. It fails with ErrLeased for a leased tensor.
func (m *Manager) Drop(t *Tensor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drop(t)
}

// drop is Drop with the lock held.
func (m *Manager) drop(t *Tensor) error {
	for _, d := range t.tenant.used {
		if t.copies[d].leased > 0 {
			return fmt.Errorf("drop %s: %w on %s: release it first", t.name, ErrLeased, m.devs[d].id)
		}
	}
	for _, i := range t.tenant.used {
		m.devs[i].free(t, "dropped")
	}
	m.dropHost(t)
	t.src = nil
	t.truth = nowhere
	t.version++
	t.discarded = false
	return nil
}

// Discard tells that nobody needs the contents of tensors that are not leased. Their memory
// on a device stays for the next task that writes them, until there is a better use
// for it. Nothing is spilled for them.
func (m *Manager) Discard(ts ...*Tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range ts {
		if !t.onDevice() || t.failure() != nil {
			_ = m.drop(t) // fails for a leased tensor, which then keeps its contents
			continue
		}
		t.discarded = true
		m.dropHost(t)
		m.devs[t.truth].rank(t)
	}
}

// Has reports whether a device, by index, has a copy of t.
func (m *Manager) Has(device int, t *Tensor) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.devs[device].copy(t).buf != nil
}

// DropCopy frees a device's copy of t, unless it is the truth or leased.
func (m *Manager) DropCopy(device int, t *Tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := &m.devs[device]; t.truth != device && d.copy(t).leased == 0 {
		d.free(t, "dropped")
		m.rankAll(t)
	}
}

// dropHost drops the host's bytes of t, if there are any.
func (m *Manager) dropHost(t *Tensor) {
	if h := t.host; h != nil {
		t.host = nil
		m.host.Drop(h) // which makes it the truth again if the copy of a moved tensor has failed
		m.rankAll(t)
	}
}

// rankAll ranks a tensor's copies on all devices.
func (m *Manager) rankAll(t *Tensor) {
	for _, i := range t.tenant.used {
		m.devs[i].rank(t)
	}
}

// freeStale frees t's copies that are stale and not leased.
func (m *Manager) freeStale(t *Tensor, cause string) {
	for _, i := range t.tenant.used {
		d := &m.devs[i]
		if c := d.copy(t); c.leased == 0 && !t.current(c) {
			d.free(t, cause)
		}
	}
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
