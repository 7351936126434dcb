package residency

import (
	"fmt"

	"github.com/berth-ml/berth/internal/units"
)

// HostMemory is the host memory of tensors, in bytes.
type HostMemory struct {
	Bound   int64 // ManagerOptions.HostBytes
	Used    int64 // in memory, with the bytes held
	Peak    int64 // the most that Used was
	Idle    int64 // among Used, kept for the next spills
	Spilled int64 // size of the file
	InFile  int64 // the most bytes of tensors that were in the file at once
}

// HostMemory measures the host memory of tensors.
func (m *Manager) HostMemory() HostMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := HostMemory{Bound: m.host.most, Used: m.host.used, Peak: m.host.peak, InFile: m.host.filing, Idle: m.host.idleBytes()}
	if m.host.file != nil {
		x.Spilled = m.host.file.Bytes()
	}
	return x
}

// HoldHost counts host memory that the caller has until ReleaseHost. It fails
// with ErrHostMemory where the bound does not allow it.
func (m *Manager) HoldHost(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := &m.host
	if x.most > 0 && x.held+bytes > x.most {
		take, most := units.TwoBytes(x.held+bytes, x.most)
		return fmt.Errorf("%w: batches and saves take %s, and %s are allowed: allow more (--host-memory), or use smaller batches", ErrHostMemory, take, most)
	}
	x.held += bytes
	x.use(bytes)
	return nil
}

// ReleaseHost undoes HoldHost.
func (m *Manager) ReleaseHost(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.held -= bytes
	m.host.used -= bytes
}
