package host

import "math"

// addresses are what a limit leaves the process to map.
type addresses struct {
	bytes int64
	limit string // the limit, as a user knows it; "" without one
}

// unlimited are the addresses without a limit.
var unlimited = addresses{bytes: math.MaxInt64}

// heapSlack is the address space in bytes by which the Go heap may grow beyond
// what is asked of it: it grows by arenas of 64 MiB.
const heapSlack = 128 << 20

// forData are the addresses for what is asked for, in bytes.
func (a addresses) forData() int64 {
	if a.limit == "" {
		return a.bytes
	}
	return max(0, a.bytes-heapSlack)
}
