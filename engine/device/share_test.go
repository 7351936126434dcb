package device

import (
	"errors"
	"slices"
	"testing"
)

func TestShares(t *testing.T) {
	const cores, memory = 7, 1000
	for _, c := range []struct {
		o    OpenOptions
		want []Share
	}{
		{OpenOptions{Count: 1}, []Share{{7, 1000}}},
		{OpenOptions{Count: 2}, []Share{{4, 500}, {3, 500}}},
		{OpenOptions{Count: 2, Threads: 2, MemoryBytes: 9}, []Share{{1, 9}, {1, 9}}},
		{OpenOptions{Count: 2, Among: 4}, []Share{{4, 125}, {3, 125}}},
		{OpenOptions{Count: 2, Among: 2, Each: []Share{{MemoryBytes: 400}, {}}}, []Share{{4, 400}, {3, 100}}},
		{OpenOptions{Count: 3, Threads: 1}, []Share{{1, 333}, {1, 333}, {1, 333}}},
		{OpenOptions{Count: 3, Each: []Share{{Threads: 2}, {}, {MemoryBytes: 400}}}, []Share{{2, 300}, {3, 300}, {2, 400}}},
		{OpenOptions{Count: 2, MemoryBytes: 5000, Each: []Share{{9, 8000}, {}}}, []Share{{9, 8000}, {1, 5000}}},
	} {
		got, err := c.o.Shares(cores, func(count int) (int64, error) { return memory / int64(count), nil })
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v, expected %v", c.o, got, err, c.want)
		}
	}
	o := OpenOptions{Count: 2, Each: []Share{{MemoryBytes: 1000}, {}}}
	if _, err := o.Shares(cores, func(int) (int64, error) { return memory, nil }); !errors.Is(err, ErrBudget) {
		t.Errorf("a device without memory: %v", err)
	}
	for _, o := range []OpenOptions{{Count: 2, Each: make([]Share, 1)}, {Count: 1, Each: []Share{{Threads: -1}}}} {
		if o.Check() == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
