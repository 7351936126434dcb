//go:build !linux

package cl

// keepSignals has nothing to put back: no driver of this system is known to replace
// handlers.
func keepSignals() (restore func()) { return func() {} }
