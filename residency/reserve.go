package residency

import "slices"

// admit lets those join whose floors fit, unless an earlier one waits for memory
// of the same device.
func (m *Manager) admit() {
	waited := make([]bool, len(m.devs)) // per device: someone waits for its memory
	kept := m.joining[:0]
	for _, j := range m.joining {
		if m.fits(j.tenant, waited) {
			m.reserve(j.tenant)
			close(j.done)
			continue
		}
		for i, floor := range j.tenant.opt.Floors {
			waited[i] = waited[i] || floor > 0
		}
		kept = append(kept, j)
	}
	clear(m.joining[len(kept):])
	m.joining = kept
}

// fits reports whether u's floors can be reserved on devices that nobody waits
// for.
func (m *Manager) fits(u *tenant, waited []bool) bool {
	for i, floor := range u.opt.Floors {
		d := &m.devs[i]
		if floor > 0 && (waited[i] || d.reserved+floor > d.spec.MemoryBytes) {
			return false
		}
	}
	return true
}

// reserve makes u a tenant. Where the peaks of all exceed a device, the tensors of
// each may leave it from now on, and come back later.
func (m *Manager) reserve(u *tenant) {
	m.tenants = append(m.tenants, u)
	for i, floor := range u.opt.Floors {
		m.devs[i].reserved += floor
	}
	for i := range m.devs {
		var peaks int64
		for _, x := range m.tenants {
			if i < len(x.opt.Peaks) {
				peaks += x.opt.Peaks[i]
			}
		}
		if peaks > m.devs[i].spec.MemoryBytes {
			for _, x := range m.tenants {
				x.seal.tight[i] = true
			}
		}
	}
}

// leave gives u's floors to those who wait.
func (m *Manager) leave(u *tenant) {
	m.tenants = slices.DeleteFunc(m.tenants, func(o *tenant) bool { return o == u })
	for i, floor := range u.opt.Floors {
		m.devs[i].reserved -= floor
	}
	m.admit()
}
