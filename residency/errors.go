package residency

import (
	"errors"
	"fmt"
)

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

// CopyError is the failure of Acquire when contents that it has brought did not
// arrive, or the task that was to write them failed.
type CopyError struct {
	Tensor, Device string
	Err            error
}

// Error names tensor and device.
func (e *CopyError) Error() string { return fmt.Sprintf("%s on %s: %v", e.Tensor, e.Device, e.Err) }

// Unwrap is the cause.
func (e *CopyError) Unwrap() error { return e.Err }
