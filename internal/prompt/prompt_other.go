//go:build !linux

package prompt

// Wake does nothing: on Linux alone, sleeps take much longer than asked for.
func Wake() {}
