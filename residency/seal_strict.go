package residency

import (
	"slices"

	"github.com/berth-ml/berth/residency/ledger"
)

// Seal forbids transfers between host and devices, except that fed inputs still
// come in, that tensors leave devices without room and come back where
// TenantOptions.Peaks announced it, and that TenantOptions.Passing pass through the
// host. A forbidden transfer fails with ErrNotResident and names the tensor and the
// cause. Without TenantOptions.Strict, Seal does
// nothing.
func (u *Tenant) Seal() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seal.on, u.seal.reasons = u.seal.strict, u.seal.reasons[:0]
}

// Unseal allows pull-backs for the given reasons until the next Seal. Without
// reasons it allows all transfers.
func (u *Tenant) Unseal(reasons ...ledger.Reason) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(reasons) == 0 {
		u.seal.on = false
	}
	u.seal.reasons = append(u.seal.reasons, reasons...)
}

// Allowed lists the transfers between host and devices under a seal, in the
// order of first appearance.
func (u *Tenant) Allowed() []Allowance {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []Allowance
	for _, a := range u.seal.allowed {
		x := a.Allowance
		x.Names = slices.Sorted(slices.Values(x.Names))
		list = append(list, x)
	}
	return list
}
