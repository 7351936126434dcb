package device

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	_ "github.com/berth-ml/berth/engine/device/gpu/cl"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
	"github.com/berth-ml/berth/internal/testall"
)

// Copies between kinds go over the host, and each half counts with its bytes.
func TestCopiesBetweenKindsCount(t *testing.T) {
	for _, other := range []string{kind, "opencl"} {
		t.Run(other, func(t *testing.T) {
			var devs []device.Device
			for _, k := range []string{"cpu", other} {
				list, err := device.Open(k, device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
				if err != nil && k == "opencl" {
					_ = devs[0].Close()
					testall.NoOpenCL(t, err)
				}
				if err != nil {
					t.Fatal(err)
				}
				devs = append(devs, list...)
			}
			copyThereAndBack(t, devs)
			for _, d := range devs {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func copyThereAndBack(t *testing.T, devs []device.Device) {
	t.Helper()
	c, err := eager.New(devs, eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	here, there := devs[0].ID(), devs[1].ID()
	x := c.FromBytes(shape.F32(3), shape.Bytes([]float32{1, 2, 3}), here)
	y := x.CopyTo(there)
	z := y.CopyTo(here)
	d, err := z.ToHost(t.Context())
	if err != nil || fmt.Sprint(d.Data()) != "[1 2 3]" {
		t.Errorf("there and back: %v, %v", d, err)
	}
	var got []string
	for _, s := range c.Ledger().Sums() {
		got = append(got, fmt.Sprintf("%s %v %s %d of %d bytes", s.Device, s.Kind, s.Reason, s.Count.Count, s.Bytes))
	}
	want := strings.ReplaceAll(`cpu:0 copy-in  1 of 12 bytes
cpu:0 copy-in transit 1 of 12 bytes
cpu:0 pull-back fetch 1 of 12 bytes
cpu:0 pull-back transit 1 of 12 bytes
cpu:0 drop  1 of 12 bytes
THERE copy-in transit 1 of 12 bytes
THERE pull-back transit 1 of 12 bytes
THERE drop  1 of 12 bytes`, "THERE", string(there))
	if have := strings.Join(got, "\n"); have != want {
		t.Errorf("the ledger has\n%s\nexpected\n%s", have, want)
	}
	if err := errors.Join(x.Release(), y.Release(), z.Release(), c.Close()); err != nil {
		t.Error(err)
	}
}
