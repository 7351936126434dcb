package residency

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/residency/ledger"
)

// Allowance counts transfers of one kind, reason and usage that a seal allowed.
type Allowance struct {
	Kind   ledger.Kind
	Reason ledger.Reason // of a pull-back or spill
	Usage  string
	Count  int64
	Bytes  int64
	First  string   // name of the first tensor
	Names  []string // sorted, of the values that moved because TenantOptions announced it; otherwise nil
}

// String is one line for people.
func (a Allowance) String() string {
	s := a.Kind.String()
	if a.Reason != "" {
		s += " (" + string(a.Reason) + ")"
	}
	s = fmt.Sprintf("%s of %s: %s, %s", s, a.Usage, units.Count(int(a.Count), "transfer"), units.Bytes(a.Bytes))
	if a.Names == nil {
		return s + ", first " + a.First
	}
	return s + ", as planned: " + strings.Join(a.Names, ", ")
}

// seal decides which transfers a tenant's tensors may make between host and devices, and counts
// those under a seal. The tenant owns it, and the manager's lock guards it.
type seal struct {
	strict  bool
	tight   []bool          // per device: tensors leave it and come back, since the peaks exceed it
	passing map[string]bool // values that pass through the host
	on      bool
	reasons []ledger.Reason
	allowed []*allowance
}

func newSeal(strict bool, passing []string, devices int) seal {
	s := seal{strict: strict, tight: make([]bool, devices), passing: map[string]bool{}}
	for _, value := range passing {
		s.passing[value] = true
	}
	return s
}

// allowance is an Allowance with its names, for a quick look.
type allowance struct {
	Allowance
	known map[string]bool
}

// crossing describes a transfer between the host and a device: a seal allows it or not.
type crossing struct {
	kind   ledger.Kind
	reason ledger.Reason
	device int
	cause  string
	fed    bool // from the caller's own memory
	back   bool // of contents that left a tight device
}

// transfer fails if t may not move between the host and a device now; otherwise
// it counts the transfer.
func (s *seal) transfer(t *Tensor, x crossing) error {
	if !s.on {
		return nil
	}
	announced := s.tight[x.device] && (x.kind == ledger.Spill || x.kind != ledger.PullBack && !x.fed) || x.kind == ledger.CopyIn && x.back ||
		x.reason == ledger.Transit && s.passing[t.key.Value]
	switch {
	case x.fed || announced || slices.Contains(s.reasons, x.reason):
		s.count(t, x.kind, x.reason, announced)
		return nil
	case x.reason == "":
		return fmt.Errorf("%w: %v of %v, cause: %s: after Seal, only the batch may be copied in", ErrNotResident, x.kind, t, x.cause)
	}
	return unasked(t, x.kind, x.reason, x.cause)
}

// pull fails if t may not be pulled back for a reason now, whether bytes move for it
// or not.
func (s *seal) pull(t *Tensor, r ledger.Reason, cause string) error {
	if !s.on || slices.Contains(s.reasons, r) {
		return nil
	}
	return unasked(t, ledger.PullBack, r, cause)
}

// unasked is the error of a transfer for a reason that Unseal was not given.
func unasked(t *Tensor, k ledger.Kind, r ledger.Reason, cause string) error {
	return fmt.Errorf("%w: %v (%s) of %v, cause: %s: call Unseal with that reason first", ErrNotResident, k, r, t, cause)
}

// count counts an allowed transfer.
func (s *seal) count(t *Tensor, k ledger.Kind, r ledger.Reason, announced bool) {
	usage := t.usage.String()
	i := slices.IndexFunc(s.allowed, func(a *allowance) bool {
		return a.Kind == k && a.Reason == r && a.Usage == usage && (a.Names != nil) == announced
	})
	if i < 0 {
		i = len(s.allowed)
		s.allowed = append(s.allowed, &allowance{Allowance{Kind: k, Reason: r, Usage: usage, First: t.name}, map[string]bool{}})
	}
	a := s.allowed[i]
	a.Count++
	a.Bytes += t.bytes
	if name := t.key.Value; announced && !a.known[name] {
		a.known[name] = true
		a.Names = append(a.Names, name)
	}
}

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
