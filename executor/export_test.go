package executor

import "time"

// ShortenDefaultTimeout makes DefaultTimeout shorter until undo is called.
func ShortenDefaultTimeout(d time.Duration) (undo func()) {
	defaultTimeout = d
	return func() { defaultTimeout = DefaultTimeout }
}
