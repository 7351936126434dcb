//go:build !race

package berth_test

// slowdown is how much longer everything takes under the race detector.
const slowdown = 1
