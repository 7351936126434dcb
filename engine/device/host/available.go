package host

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
)

// The shares that devices take together if no budget is given: of the memory
// that the system has left, and of the addresses that the process may map. The
// rest is for the Go heap, host buffers and mapped files. An arena reserves more
// addresses than its budget.
const (
	shareOfMemory    = 0.8
	shareOfAddresses = 0.2
)

// DefaultBudget is the budget in bytes of each of count devices if none is
// given.
func DefaultBudget(count int) (int64, error) {
	free, err := systemMemory()
	if err != nil {
		return 0, fmt.Errorf("cannot tell how much memory is free (%w): set the memory of each device (devices.memory, --device-memory)", err)
	}
	return budgetWithin(free, leastAddresses(), count)
}

// budgetWithin is DefaultBudget for a machine with so many bytes of free memory, and so
// many addresses.
func budgetWithin(free int64, a addresses, count int) (int64, error) {
	if a.bytes <= heapSlack {
		return 0, fmt.Errorf("%w: %s leaves the process %s, and the Go heap alone may need %s: raise that limit, or set the memory of each device (devices.memory, --device-memory)",
			device.ErrBudget, a.limit, units.Bytes(a.bytes), units.Bytes(heapSlack))
	}
	most := min(float64(free)*shareOfMemory, float64(a.forData())*shareOfAddresses)
	return max(1, int64(most)/int64(max(1, count))), nil
}

// Available is the memory in bytes that the process can still take: what the
// system has left, within the limits of the process and of its control groups.
func Available() (int64, error) {
	free, err := systemMemory()
	return min(free, leastAddresses().forData()), err
}

// Scarce is the limit of the process, such as "ulimit -v", that leaves it less
// memory than the system has left; "" where none does.
func Scarce() string {
	free, err := systemMemory()
	if a := leastAddresses(); err != nil || a.forData() < free {
		return a.limit
	}
	return ""
}
