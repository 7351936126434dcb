package residency

import (
	"errors"

	"github.com/berth-ml/berth/residency/hostmem"
)

// The causes of residency errors.
var (
	ErrUndefined   = errors.New("tensor has no contents")
	ErrStale       = errors.New("the host's copy is out of date")
	ErrBudget      = errors.New("device budget is too small")
	ErrHostMemory  = hostmem.ErrFull
	ErrLeased      = errors.New("tensor is leased")
	ErrNotResident = errors.New("the tensor is not where it is needed")
	ErrMismatch    = errors.New("the description does not match")
	ErrNotHeld     = errors.New("lease is not held")
	ErrClosed      = errors.New("residency manager is closed")
	ErrLost        = errors.New("contents are lost")
	ErrOwned       = errors.New("a device can have only one residency manager at a time")
	ErrShared      = errors.New("the tensor is shared")
	ErrSuspended   = errors.New("the tenant is suspended: continue it first")
	ErrOccupied    = errors.New("other runs have the memory of the device: wait until one of them is closed, or give the device more (devices.memory)")
)

// CopyError says that contents did not arrive where they are needed: their copy
// failed, or the task that was to write them.
type CopyError struct{ Err error }

// Error is the failure.
func (e *CopyError) Error() string { return e.Err.Error() }

// Unwrap is the failure.
func (e *CopyError) Unwrap() error { return e.Err }
