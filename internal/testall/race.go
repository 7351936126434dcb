//go:build race

package testall

// Race is whether the race detector is on. It makes each op many times slower.
const Race = true
