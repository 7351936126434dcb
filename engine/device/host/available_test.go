package host

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// Two devices share the memory that one would have.
func TestDefaultBudget(t *testing.T) {
	one, err := DefaultBudget(1)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := DefaultBudget(2); one < 1<<20 || two > one*3/4 {
		t.Errorf("budgets %d for one device and %d for each of two", one, two)
	}
}

// A budget is within the memory and within the addresses.
func TestBudgetWithin(t *testing.T) {
	const free = 1000 << 20
	for _, c := range []struct {
		a    addresses
		want int64
	}{
		{unlimited, 400 << 20},
		{addresses{math.MaxInt64 - 1, "ulimit -v"}, 400 << 20},
		{addresses{heapSlack + 100<<20, "ulimit -v"}, 10 << 20},
	} {
		if n, err := budgetWithin(free, c.a, 2); err != nil || n != c.want {
			t.Errorf("%+v: %d bytes, expected %d, %v", c.a, n, c.want, err)
		}
	}
	_, err := budgetWithin(free, addresses{heapSlack, "ulimit -v"}, 1)
	if !errors.Is(err, device.ErrBudget) || !strings.Contains(err.Error(), "ulimit -v leaves the process 128.0 MiB") || !strings.Contains(err.Error(), "--device-memory") {
		t.Errorf("without addresses: %v", err)
	}
}
