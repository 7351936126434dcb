package residency_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
)

// TestEachLeaseThatFitsIsGranted: random tasks run, in any order, on a device with
// exactly the memory that the largest takes, though what others leave lies in
// pieces. With one unit less, that one is refused.
func TestEachLeaseThatFitsIsGranted(t *testing.T) {
	const unit = device.MemoryUnit
	rapid.Check(t, func(rt *rapid.T) {
		type task struct {
			needs   []int
			scratch int64
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 8).Draw(rt, "floats")
		var tasks []task
		var most int64
		for range rapid.IntRange(1, 4).Draw(rt, "tasks") {
			x := task{rapid.SliceOfNDistinct(rapid.IntRange(0, len(sizes)-1), 1, -1, rapid.ID[int]).Draw(rt, "needs"), rapid.Int64Range(0, 500).Draw(rt, "scratch")}
			bytes := (x.scratch + unit - 1) / unit * unit
			for _, i := range x.needs {
				bytes += (int64(4*sizes[i]) + unit - 1) / unit * unit
			}
			tasks, most = append(tasks, x), max(most, bytes)
		}
		order := rapid.SliceOfN(rapid.IntRange(0, len(tasks)-1), 1, 20).Draw(rt, "order")
		for _, memory := range []int64{most, most - unit} {
			if memory == 0 {
				continue
			}
			err := runTasks(rt, memory, sizes, func(acquire func(needs []int, scratch int64) error) error {
				for _, i := range append(order, rapid.Permutation([]int{0, len(tasks) - 1}).Draw(rt, "last")...) {
					if err := acquire(tasks[i].needs, tasks[i].scratch); err != nil {
						return err
					}
				}
				for i := range tasks {
					if err := acquire(tasks[i].needs, tasks[i].scratch); err != nil {
						return err
					}
				}
				return nil
			})
			if (err == nil) != (memory == most) {
				rt.Fatalf("with %d of %d bytes: %v", memory, most, err)
			}
		}
	})
}

// runTasks opens a device of that memory and a manager with tensors of so many
// floats, and hands tasks a way to lease and release them.
func runTasks(rt *rapid.T, memory int64, sizes []int, run func(acquire func([]int, int64) error) error) error {
	check := func(err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: memory})
	check(err)
	m, err := residency.Open(devs, residency.ManagerOptions{}, residency.TenantOptions{})
	check(err)
	s, err := devs[0].NewStream("compute")
	check(err)
	var ts []*residency.Tensor
	for i, n := range sizes {
		x, err := m.Declare(residency.Key{Value: fmt.Sprint("t", i)}, shape.F32(n), device.Weight)
		check(err)
		check(m.Fill(x, make([]byte, 4*n)))
		ts = append(ts, x)
	}
	var l residency.Lease
	err = run(func(list []int, scratch int64) error {
		var needs []residency.Need
		for _, i := range list {
			needs = append(needs, residency.Need{Tensor: ts[i], Mode: residency.ReadWrite})
		}
		if err := m.Acquire(rt.Context(), s, needs, scratch, &l); err != nil {
			return err
		}
		return m.Release(&l, s.Record())
	})
	check(s.Close())
	check(m.Close())
	check(devs[0].Close())
	return err
}
