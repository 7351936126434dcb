package residency

import "github.com/berth-ml/berth/residency/hostmem"

// HostMemory measures the host memory of tensors.
func (m *Manager) HostMemory() hostmem.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.Usage()
}

// HoldHost counts host memory that the caller has until ReleaseHost. It fails
// with ErrHostMemory where the bound does not allow it.
func (m *Manager) HoldHost(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.Hold(bytes)
}

// ReleaseHost undoes HoldHost.
func (m *Manager) ReleaseHost(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Release(bytes)
}
