package device

import (
	"fmt"

	"github.com/berth-ml/berth/internal/units"
)

// Share is one device's part of the threads and the memory that a kind's devices
// use.
type Share struct {
	Threads     int   // 0: an equal part of the threads that the others leave
	MemoryBytes int64 // 0: OpenOptions.MemoryBytes, or else an equal part of the memory that the others leave
}

// Shares is the share of each device, without zeros. cores is the number of
// threads where o has none; budget is the default budget of each of count
// devices of a process that has the memory to itself.
func (o OpenOptions) Shares(cores int, budget func(count int) (int64, error)) ([]Share, error) {
	shares := make([]Share, o.Count)
	copy(shares, o.Each)
	total := o.Threads
	if total == 0 {
		total = cores
	}
	divideThreads(shares, total)
	for i := range shares {
		if shares[i].MemoryBytes == 0 {
			shares[i].MemoryBytes = o.MemoryBytes
		}
	}
	among := func(count int) (int64, error) {
		each, err := budget(count)
		return each / int64(max(1, o.Among)), err
	}
	if err := divideMemory(shares, among); err != nil {
		return nil, err
	}
	return shares, nil
}

// divideThreads divides the threads that are left of total over the devices
// without threads, at least one each. The first ones get one more where that
// does not come out even.
func divideThreads(shares []Share, total int) {
	open := 0
	for _, s := range shares {
		total -= s.Threads
		if s.Threads == 0 {
			open++
		}
	}
	at := 0
	for i := range shares {
		if shares[i].Threads == 0 {
			shares[i].Threads = max(1, (total+open-1-at)/open)
			at++
		}
	}
}

// divideMemory divides the memory that is left over the devices without a
// budget.
func divideMemory(shares []Share, budget func(count int) (int64, error)) error {
	open, given := 0, int64(0)
	for _, s := range shares {
		given += s.MemoryBytes
		if s.MemoryBytes == 0 {
			open++
		}
	}
	if open == 0 {
		return nil
	}
	count := open
	if given > 0 {
		count = 1 // all there is, before the budgets that are given
	}
	each, err := budget(count)
	if err != nil {
		return err
	}
	if given > 0 {
		if each = (each - given) / int64(open); each < 1 {
			return fmt.Errorf("%w: budgets of %s leave nothing of %s for %d devices without one: give them budgets too, or lower the others",
				ErrBudget, units.Bytes(given), units.Bytes(each*int64(open)+given), open)
		}
	}
	for i := range shares {
		if shares[i].MemoryBytes == 0 {
			shares[i].MemoryBytes = each
		}
	}
	return nil
}
