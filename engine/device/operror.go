package device

import "fmt"

// OpError is the failure of one operation of a device. The operation wrote
// nothing.
type OpError struct {
	Device ID
	What   string // the operation: a segment's name, "copy-in", "alloc"
	Err    error
}

// Error names device and operation.
func (e *OpError) Error() string { return fmt.Sprintf("%s on %s: %v", e.What, e.Device, e.Err) }

// Unwrap is the cause.
func (e *OpError) Unwrap() error { return e.Err }
