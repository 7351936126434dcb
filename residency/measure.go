package residency

import (
	"slices"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// Memory says who has memory, in bytes. Its numbers are read one after the other while work goes on, so those of two devices
// are of different instants.
type Memory struct {
	Devices []DeviceMemory `json:"devices"`
	Host    HostMemory     `json:"host"`
}

// DeviceMemory is the memory of a device, in bytes. Each buffer counts as rounded up to device.MemoryUnit.
type DeviceMemory struct {
	ID      string         `json:"id"`
	Limit   int64          `json:"limit"`
	Tenants []TenantMemory `json:"tenants"` // that use the device, in the order in which they came
	Moves   Moves          `json:"moves"`   // of all tenants so far, also those that have closed
}

// TenantMemory is what a tenant has on a device, in bytes.
type TenantMemory struct {
	Name      string           `json:"name"`            // TenantOptions.Name
	Job       int              `json:"job,omitempty"`   // of a daemon; 0: it is none of a job
	Users     []string         `json:"users,omitempty"` // of tensors that tenants read together: the names of these
	Jobs      []int            `json:"jobs,omitempty"`  // of a daemon: those of the users
	Suspended bool             `json:"suspended,omitempty"`
	Floor     int64            `json:"floor"`    // without which its largest task does not run; reserved unless it is suspended
	Peak      int64            `json:"peak"`     // that its tasks take where there is enough
	ByUsage   map[string]int64 `json:"by_usage"` // by device.Usage's names, each of them
	Moves     Moves            `json:"moves"`    // so far
}

// Moves are bytes that moved between the host and a device.
type Moves struct {
	In      int64 `json:"in"`      // to the device, from host memory or a store
	Out     int64 `json:"out"`     // to the host
	Spilled int64 `json:"spilled"` // among Out, since others needed the room
}

// HostMemory is the host memory beside devices, in bytes.
type HostMemory struct {
	Limit   int64 `json:"limit"`   // of all of it; 0: there is none
	Tensors int64 `json:"tensors"` // contents of tensors, batches and saves
	Data    int64 `json:"data"`    // samples of data sets
	File    int64 `json:"file"`    // contents of tensors in the file beyond the limit, which is no memory
}

// Used is the sum of what all tenants have.
func (d *DeviceMemory) Used() (bytes int64) {
	for i := range d.Tenants {
		bytes += d.Tenants[i].Used()
	}
	return bytes
}

// Used is the sum over all usages.
func (t *TenantMemory) Used() (bytes int64) {
	for _, n := range t.ByUsage {
		bytes += n
	}
	return bytes
}

// usageBytes are bytes by usage.
type usageBytes [device.NumUsages]atomic.Int64

func (x *usageBytes) now() map[string]int64 {
	m := make(map[string]int64, len(x))
	for u := range x {
		m[device.Usage(u).String()] = x[u].Load()
	}
	return m
}

// most remembers who had what when a device had most since somebody asked. Without it, whoever asks would see the memory
// between two launches: what these work with is free again in the order in which they are queued. The manager's
// lock guards the fields without their own.
type most struct {
	asked  atomic.Uint64 // counts the calls of Measure
	noted  atomic.Uint64 // asked when tenants noted what they had
	writes atomic.Uint64 // odd while they do

	bytes   int64      // of all tenants now
	most    int64      // then
	changed []*tenancy // that have other bytes now
}

// keep notes what tenants have before the first bytes are given back since somebody asked: the device may not have as much again.
func (x *most) keep() {
	if asked := x.asked.Load(); x.noted.Load() != asked {
		x.note(asked)
	}
}

// count counts a tenant's bytes that were taken, or given back.
func (x *most) count(y *tenancy, bytes int64) {
	x.bytes += bytes
	if !y.changed {
		y.changed, x.changed = true, append(x.changed, y)
	}
	if asked := x.asked.Load(); x.bytes > x.most || x.noted.Load() != asked {
		x.note(asked)
	}
}

// note notes what tenants have now.
func (x *most) note(asked uint64) {
	x.most = x.bytes
	x.writes.Add(1)
	for i, y := range x.changed {
		for u := range y.most {
			y.most[u].Store(y.memory.LiveBy[u])
		}
		y.changed, x.changed[i] = false, nil
	}
	x.changed = x.changed[:0]
	x.noted.Store(asked)
	x.writes.Add(1)
}

// read calls f, again where bytes were noted meanwhile, and begins to look for the most anew. idle says that none changed since the
// call before.
func (x *most) read(f func(idle bool)) {
	const tries = 100 // then some are of another instant
	for range tries {
		writes := x.writes.Load()
		f(x.noted.Load() != x.asked.Load())
		if writes%2 == 0 && x.writes.Load() == writes {
			break
		}
	}
	x.asked.Add(1)
}

// forget forgets a tenant that has no bytes any more.
func (x *most) forget(y *tenancy) {
	x.changed = slices.DeleteFunc(x.changed, func(o *tenancy) bool { return o == y })
}

// moved counts the bytes that moved.
type moved struct{ in, out, spilled atomic.Int64 }

// add counts an entry of a ledger.
func (x *moved) add(k ledger.Kind, bytes int64) {
	switch k {
	case ledger.CopyIn, ledger.StreamIn:
		x.in.Add(bytes)
	case ledger.Spill:
		x.spilled.Add(bytes)
		x.out.Add(bytes)
	case ledger.PullBack:
		x.out.Add(bytes)
	}
}

func (x *moved) now() Moves {
	return Moves{In: x.in.Load(), Out: x.out.Load(), Spilled: x.spilled.Load()}
}

// show makes the tenants those that Measure reads. The caller holds the lock.
func (m *Manager) show() {
	list := slices.Clone(m.tenants)
	m.shown.Store(&list)
}

// Measure says who has the devices' memory, and what tensors have of the host's. It takes no lock that a task needs.
// Of each device, what tenants have is of the instant at which the device had most since the call before, by whomever.
func (m *Manager) Measure() Memory {
	var tenants []*Tenant
	if list := m.shown.Load(); list != nil {
		tenants = *list
	}
	x := Memory{Devices: make([]DeviceMemory, len(m.devs))}
	for i := range m.devs {
		d := &m.devs[i]
		of := DeviceMemory{ID: d.id, Limit: d.spec.MemoryBytes, Moves: d.moved.now()}
		d.most.read(func(idle bool) { of.Tenants = measured(tenants, i, idle) })
		x.Devices[i] = of
	}
	x.Host.Tensors, x.Host.File = m.host.Now()
	x.Host.Limit = m.host.Bound()
	return x
}

// measured is what tenants have on a device: now if it is idle, and else when it had most.
func measured(tenants []*Tenant, device int, idle bool) []TenantMemory {
	list := []TenantMemory{}
	for _, u := range tenants {
		y := &u.on[device]
		if !y.used {
			continue
		}
		t := TenantMemory{Name: u.opt.Name, Suspended: u.suspended.Load(), ByUsage: y.most.now(), Moves: y.moved.now()}
		if idle {
			t.ByUsage = y.live.now()
		}
		if device < len(u.opt.Floors) {
			t.Floor = u.opt.Floors[device]
		}
		if device < len(u.opt.Peaks) {
			t.Peak = u.opt.Peaks[device]
		}
		if b := u.keeps; b != nil { // the floor that its users have together
			for _, o := range tenants {
				if o.base == b {
					t.Users = append(t.Users, o.opt.Name)
				}
			}
			t.Floor, t.Suspended = b.bytes[device], b.awake.Load() == 0
		}
		list = append(list, t)
	}
	return list
}
