//go:build !linux

package command

import "syscall"

// endsWithUs is nothing: a process whose server is killed goes on to its end.
var endsWithUs *syscall.SysProcAttr

// limitMemory does nothing: the collector's own bound holds, and a training's checks of the memory that it takes.
func limitMemory(int, uint64) error { return nil }
