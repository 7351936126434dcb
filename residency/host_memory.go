package residency

import "github.com/berth-ml/berth/residency/hostmem"

// HostMemory measures the host memory of tensors.
func (m *Manager) HostMemory() hostmem.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.Usage()
}

// HoldHost counts host memory that the caller has until ReleaseHost. It takes room in
// the file for the tensors that give way to it. It fails with ErrHostMemory where the
// bound does not allow it, and with hostfile.ErrNoRoom where the disk is full.
func (m *Manager) HoldHost(bytes int64) error {
	m.mu.Lock()
	err := m.host.Hold(bytes)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if err := m.resizeFile(); err != nil {
		m.ReleaseHost(bytes)
		return err
	}
	return nil
}

// ReleaseHost undoes HoldHost.
func (m *Manager) ReleaseHost(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Release(bytes)
}

// resizeFile gives the file of host memory the size that its tenants need.
func (m *Manager) resizeFile() error {
	m.room.Lock()
	defer m.room.Unlock()
	m.mu.Lock()
	var held int64
	for _, u := range m.tenants {
		held += u.opt.HeldBytes
	}
	m.host.KeepFree(held)
	f, bytes := m.host.File(m.onHost())
	m.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.Resize(bytes)
}

// onHost is the most bytes that all tenants have on the host at once: those of each
// one alone, or all that a device is to have whose memory the peaks exceed. largest is
// the bytes of the largest tensor.
func (m *Manager) onHost() (bytes, largest int64) {
	var alone, together int64
	for _, u := range m.tenants {
		alone += u.opt.HostBytes
		largest = max(largest, u.opt.LargestBytes)
	}
	for i := range m.devs {
		if peaks := m.peaks(i); peaks > m.devs[i].spec.MemoryBytes {
			together += peaks
		}
	}
	return max(alone, together), largest
}
