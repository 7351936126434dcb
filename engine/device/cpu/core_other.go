//go:build !linux || !amd64

package cpu

// coreNow is negative: no core is known.
func coreNow() int32 { return -1 }

// moveFrom leaves it to the system.
func moveFrom(int32, func(core int32) bool) {}
