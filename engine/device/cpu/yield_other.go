//go:build !linux && !freebsd && !windows

package cpu

import "runtime"

// yield lets other goroutines run.
func yield() { runtime.Gosched() }
