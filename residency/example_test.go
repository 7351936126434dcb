package residency_test

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// A task doubles a weight on a device. Its contents go in when the task needs
// them, stay there, and come back only when they are pulled back.
func Example() {
	if err := double(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// filled: host
	// after a task: cpu:0
	// pulled back: cpu:0, clean on host
	// [2 4 6]
	// copy-in 12 bytes, pull-back 12 bytes
}

func double(ctx context.Context) error {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	if err != nil {
		return err
	}
	defer devs[0].Close()
	m, err := residency.Open(devs, residency.ManagerOptions{}, residency.TenantOptions{})
	if err != nil {
		return err
	}
	defer m.Close()
	w, err := m.Declare(residency.Key{Value: "weight"}, shape.F32(3), device.Weight)
	if err != nil {
		return err
	}
	if err := m.Fill(w, shape.Bytes([]float32{1, 2, 3})); err != nil {
		return err
	}
	fmt.Println("filled:", w.Location())
	if err := task(ctx, m, devs[0], w); err != nil {
		return err
	}
	fmt.Println("after a task:", w.Location())
	if err := m.PullBack(ctx, ledger.Epoch, w); err != nil {
		return err
	}
	fmt.Println("pulled back:", w.Location())
	err = m.View(w, func(b []byte) error {
		fmt.Println(shape.View[float32](b))
		return nil
	})
	in, out := m.Ledger().Total(ledger.CopyIn), m.Ledger().Total(ledger.PullBack)
	fmt.Printf("copy-in %d bytes, pull-back %d bytes\n", in.Bytes, out.Bytes)
	return err
}

// task leases the weight, launches an executable that overwrites it, and
// releases it. It waits for nothing.
func task(ctx context.Context, m *residency.Tenant, d device.Device, w *residency.Tensor) error {
	b := graph.NewBuilder("double", 1)
	x := b.Input("old", w.Meta())
	b.Output("new", b.One(ops.AddOp, x, x))
	g, err := b.Graph()
	if err != nil {
		return err
	}
	exe, err := d.Compile(g, device.CompileOptions{Alias: []int{0}})
	if err != nil {
		return err
	}
	s, err := d.NewStream("compute")
	if err != nil {
		return err
	}
	var l residency.Lease
	if err := m.Acquire(ctx, s, []residency.Need{{Tensor: w, Device: 0, Mode: residency.ReadWrite}}, exe.Memory().Temporary, &l); err != nil {
		return err
	}
	done, err := s.Launch(exe, l.Buffers, l.Buffers, l.Scratch)
	if err != nil {
		return err
	}
	if err := m.Release(&l, done); err != nil {
		return err
	}
	return s.Close()
}
