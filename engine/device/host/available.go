package host

import "fmt"

// shareOfMemory is the share of the available memory that devices take if no
// budget is given. The rest is for the Go heap and host buffers.
const shareOfMemory = 0.8

// DefaultBudget is the budget in bytes of each of count devices if none is
// given: together they take a share of the available memory.
func DefaultBudget(count int) (int64, error) {
	free, err := Available()
	if err != nil {
		return 0, fmt.Errorf("the available memory is not known (%w): set the device's memory budget", err)
	}
	return max(1, int64(float64(free)*shareOfMemory)/int64(max(1, count))), nil
}

// Available is the memory in bytes that the system has left, within the limits
// of the process's control group if there is one.
func Available() (int64, error) { return available() }

// heapSlack is the address space in bytes by which the Go heap may grow beyond
// what is asked of it: it grows by arenas of 64 MiB.
const heapSlack = 128 << 20

// ForHeap is the memory in bytes that the Go heap can still take: what is
// available, within the limit on the process's address space if there is one.
func ForHeap() (int64, error) {
	free, err := Available()
	return min(free, max(0, addressSpace()-heapSlack)), err
}
