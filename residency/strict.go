package residency

import "slices"

// Seal says that all is resident: from now on only fed inputs come in, nothing
// is spilled or streamed, and nothing comes out. Any other transfer fails with
// ErrNotResident, naming tensor and cause. Without ManagerOptions.Strict it does
// nothing.
func (m *Manager) Seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seal.on, m.seal.reasons = m.seal.strict, m.seal.reasons[:0]
}

// Unseal allows pull-backs for the given reasons until the next Seal; with no
// reason, it allows everything.
func (m *Manager) Unseal(reasons ...Reason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(reasons) == 0 {
		m.seal.on = false
	}
	m.seal.reasons = append(m.seal.reasons, reasons...)
}

// Allowed lists the transfers between host and devices under a seal, in the
// order of first appearance.
func (m *Manager) Allowed() []Allowance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seal.allowed)
}
