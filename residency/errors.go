package residency

import "errors"

// The causes of residency errors.
var (
	ErrUndefined   = errors.New("tensor has no contents")
	ErrStale       = errors.New("the host's bytes are not current")
	ErrBudget      = errors.New("device budget is too small")
	ErrHostMemory  = errors.New("the bound on host memory is too low")
	ErrLeased      = errors.New("tensor is leased")
	ErrNotResident = errors.New("not resident")
	ErrMismatch    = errors.New("metadata does not agree")
	ErrNotHeld     = errors.New("lease is not held")
	ErrClosed      = errors.New("residency manager is closed")
)
