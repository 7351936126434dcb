package eager

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/gpu/cl"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency/ledger"
)

// On a device with memory of its own, host tensors are pinned, values are logged, and the host counts.
func TestOnOpenCL(t *testing.T) {
	devs, err := device.Open("opencl", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		testall.NoOpenCL(t, err)
		return
	}
	var log strings.Builder
	c, err := New(devs, ContextOptions{Handler: func(devices Handler) Handler { return LoggingValues(devices, &log) }})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.AllocHost(shape.F32(2, 2), "")
	if err != nil {
		t.Fatal(err)
	}
	copy(shape.View[float32](h.Bytes()), []float32{0, -1, 2, 0})
	x := c.One(ops.Unary{Fn: "neg"}, h.Upload())
	if err := h.Fetch(bg, x); err != nil {
		t.Fatal(err)
	}
	if got := shape.View[float32](h.Bytes()); !slices.Equal(got, []float32{0, 1, -2, 0}) {
		t.Errorf("fetched %v", got)
	}
	if want := "\n  f32[2,2]: [-0 1 -2 -0], least -2, largest 1, mean -0.25\n"; !strings.Contains(log.String(), want) {
		t.Errorf("the log does not have %q:\n%s", want, log.String())
	}
	at, err := c.Nonzero(bg, x)
	if err != nil {
		t.Fatal(err)
	}
	places, err := at.ToHost(bg)
	if err != nil || !slices.Equal(places.Int32s(), []int32{0, 1, 1, 0}) {
		t.Errorf("the places are %v: %v", places, err)
	}
	if got := c.Ledger().OfReason(ledger.Fetch).Bytes; got != 3*16 {
		t.Errorf("%d bytes were fetched, expected those of two tensors and the places", got)
	}
	if err := errors.Join(at.Release(), h.Free(), c.Close(), devs[0].Close()); err != nil {
		t.Error(err)
	}
}
