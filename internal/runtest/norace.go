//go:build !race

package runtest

// Slowdown is how much longer everything takes under the race detector.
const Slowdown = 1
