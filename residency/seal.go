package residency

import (
	"fmt"
	"slices"
)

// Allowance counts transfers of one kind, reason and usage that a seal allowed.
type Allowance struct {
	Kind   Kind
	Reason Reason // of a pull-back
	Usage  string
	Count  int64
	Bytes  int64
	First  string // name of the first tensor
}

// String is one line for people.
func (a Allowance) String() string {
	s := a.Kind.String()
	if a.Reason != "" {
		s += " (" + string(a.Reason) + ")"
	}
	return fmt.Sprintf("%s of %s: %d transfers, %d bytes, first %s", s, a.Usage, a.Count, a.Bytes, a.First)
}

// seal is the state of the strict mode.
type seal struct {
	strict  bool
	on      bool
	reasons []Reason
	allowed []Allowance
}

// transfer fails if t may not move between host and device now; otherwise it
// counts the transfer.
func (s *seal) transfer(t *Tensor, k Kind, r Reason, cause string, fed bool) error {
	if !s.on {
		return nil
	}
	if !fed && !slices.Contains(s.reasons, r) {
		if r == "" {
			return fmt.Errorf("%w: %v of %v, cause: %s: only the batch may come in", ErrNotResident, k, t, cause)
		}
		return fmt.Errorf("%w: %v (%s) of %v, cause: %s: call Unseal with that reason first", ErrNotResident, k, r, t, cause)
	}
	usage := t.usage.String()
	for i := range s.allowed {
		if a := &s.allowed[i]; a.Kind == k && a.Reason == r && a.Usage == usage {
			a.Count++
			a.Bytes += t.bytes
			return nil
		}
	}
	s.allowed = append(s.allowed, Allowance{k, r, usage, 1, t.bytes, t.name})
	return nil
}
