package residency

// Seal forbids transfers between host and devices, except that fed inputs still
// come in, and that tensors leave devices without room and come back where
// ManagerOptions.Tight says so. A forbidden transfer fails with ErrNotResident and names the tensor
// and the cause. Without ManagerOptions.Strict, Seal does nothing.
func (m *Manager) Seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seal.on, m.seal.reasons = m.seal.strict, m.seal.reasons[:0]
}

// Unseal allows pull-backs for the given reasons until the next Seal. Without
// reasons it allows all transfers.
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
	var list []Allowance
	for _, a := range m.seal.allowed {
		list = append(list, a.Allowance)
	}
	return list
}
