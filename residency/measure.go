package residency

import (
	"slices"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// Memory says who has memory at one instant, in bytes. Its numbers are read one after the other while work goes on, so
// two of them may be of different instants; sums are made of the numbers that were read.
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
	Name      string           `json:"name"`          // TenantOptions.Name
	Job       int              `json:"job,omitempty"` // of a daemon; 0: it is none of a job
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

// live is the bytes of a tenant's buffers on a device, by usage.
type live [device.NumUsages]atomic.Int64

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
func (m *Manager) Measure() Memory {
	var tenants []*Tenant
	if list := m.shown.Load(); list != nil {
		tenants = *list
	}
	x := Memory{Devices: make([]DeviceMemory, len(m.devs))}
	for i := range m.devs {
		d := &m.devs[i]
		of := DeviceMemory{ID: d.id, Limit: d.spec.MemoryBytes, Tenants: []TenantMemory{}, Moves: d.moved.now()}
		for _, u := range tenants {
			if u.on[i].used {
				of.Tenants = append(of.Tenants, u.measure(i))
			}
		}
		x.Devices[i] = of
	}
	x.Host.Tensors, x.Host.File = m.host.Now()
	x.Host.Limit = m.host.Bound()
	return x
}

// measure is what the tenant has on a device.
func (u *Tenant) measure(device int) TenantMemory {
	y := &u.on[device]
	t := TenantMemory{Name: u.opt.Name, Suspended: u.suspended.Load(), ByUsage: y.live.now(), Moves: y.moved.now()}
	if device < len(u.opt.Floors) {
		t.Floor = u.opt.Floors[device]
	}
	if device < len(u.opt.Peaks) {
		t.Peak = u.opt.Peaks[device]
	}
	return t
}

func (x *live) now() map[string]int64 {
	m := make(map[string]int64, len(x))
	for u := range x {
		m[device.Usage(u).String()] = x[u].Load()
	}
	return m
}
