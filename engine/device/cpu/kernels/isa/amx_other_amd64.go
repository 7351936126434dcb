//go:build !linux

package isa

// allowTiles reports that AMX is not used: how to ask this system for it is not
// known.
func allowTiles() bool { return false }
