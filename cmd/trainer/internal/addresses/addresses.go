package addresses

import "strconv"

const (
	// least is the address space in bytes that the program takes before it does anything: the
	// Go runtime reserves 1.1 GiB for its tables, and maps program and heap.
	least = 13 << 30 / 10
	// threads is what the first threads take in the C library: each has a stack of 8 MiB and
	// memory of 64 MiB. Go starts six to eight of them, also on one core.
	threads = 512 << 20
)

// tooFew says that a limit on address space in bytes is too low to start; "" if it is not.
func tooFew(limit int64) string {
	need := int64(least)
	if usesC {
		need += threads
	}
	if limit >= need {
		return ""
	}
	return "the address space is limited to " + gib(limit) + " (ulimit -v), and this program needs at least " + gib(need) +
		" to start: raise the limit, or limit memory with a control group in place of it"
}

// gib is a number of bytes in words. It does without the packages that format.
func gib(bytes int64) string {
	tenths := (bytes*10 + 1<<29) >> 30
	return strconv.FormatInt(tenths/10, 10) + "." + strconv.FormatInt(tenths%10, 10) + " GiB"
}
