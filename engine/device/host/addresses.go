package host

import "math"

// addresses is the address space that a limit leaves the process.
type addresses struct {
	bytes int64
	limit string // the limit, as a user knows it; "" without one
}

// unlimited are the addresses without a limit.
var unlimited = addresses{bytes: math.MaxInt64}

// heapSlack is the address space in bytes that is left to the Go heap. It grows by arenas
// of 64 MiB, so it may take more than the program asks for.
const heapSlack = 128 << 20

// forData is the bytes that may be mapped without the Go heap running out of addresses.
func (a addresses) forData() int64 {
	if a.limit == "" {
		return a.bytes
	}
	return max(0, a.bytes-heapSlack)
}
