package main

import (
	"runtime"
	"slices"
	"time"
)

// steady is by how much the probe's times in the rounds of a row may differ. Beyond it the machine has changed its
// speed meanwhile: another clock, or a neighbour on the same core.
const steady = 1.10

// probe is the least time of 40 runs of the same arithmetic: chains that keep several units of a core busy, without
// memory.
func probe() time.Duration {
	least := time.Duration(1 << 62)
	for range 40 {
		start := time.Now()
		runtime.KeepAlive(work()) // or the compiler would leave it out
		least = min(least, time.Since(start))
	}
	return least
}

func work() float64 {
	a, b, c, d := 1.0, 2.0, 3.0, 4.0
	p, q := uint64(1), uint64(2)
	for range 40000 {
		a, b, c, d = a*0.999+1, b*0.999+1, c*0.999+1, d*0.999+1
		p, q = p*0x9e3779b97f4a7c15+1, q*0xbf58476d1ce4e5b9+1
	}
	return a + b + c + d + float64(p^q)
}

// spread is the slowest of some probes over the fastest.
func spread(times []time.Duration) float64 {
	if len(times) == 0 {
		return 1
	}
	return float64(slices.Max(times)) / float64(slices.Min(times))
}
