//go:build !linux

package streams

// wakePromptly does nothing: on Linux alone, sleeps take much longer than asked for.
func wakePromptly() {}
