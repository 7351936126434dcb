package berth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
	"github.com/berth-ml/berth/internal/runtest"
)

// Ops run between the steps of a training on the same devices, which ends with the weights
// that it has alone.
func TestOpByOpBesideARun(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu:2", 8<<20)
	c, err := d.OpByOp(eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run := runtest.OpenOn(t, d, runtest.Parsed(t, "digits", "train.epochs=1", "checkpoint.every=100"))
	training, err := run.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	x := c.One(ops.Fill{Meta: shape.F32(100), Value: 1})
	for training.More() {
		x = c.One(ops.AddOp, x.Ref(), x)
		x = c.One(ops.Affine{Scale: 0.5}, x)
		if err := training.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report, err := training.Finish(t.Context())
	if err := errors.Join(err, training.Close()); err != nil {
		t.Fatal(err)
	}
	if alone := weightsAlone(t); report.WeightsSHA256 != alone {
		t.Errorf("the weights are %s, alone %s", report.WeightsSHA256, alone)
	}
	y := x.CopyTo("cpu:1")
	got, err := y.ToHost(t.Context())
	if err != nil || got.Float32s()[99] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); !errors.Is(err, berth.ErrInUse) || !strings.Contains(err.Error(), `used by "op by op": close it first`) {
		t.Errorf("closing devices under a context: %v", err)
	}
	if err := errors.Join(x.Release(), y.Release(), c.Close()); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// weightsAlone are the weights of the run that trains alone.
func weightsAlone(t *testing.T) string {
	t.Helper()
	d := runtest.OpenDevices(t, "cpu:2", 8<<20)
	run := runtest.OpenOn(t, d, runtest.Parsed(t, "digits", "train.epochs=1", "checkpoint.every=100"))
	defer run.Close()
	report, err := run.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return report.WeightsSHA256
}

func TestOpByOpWithoutDevices(t *testing.T) {
	if _, err := new(berth.Devices).OpByOp(eager.ContextOptions{}); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("never opened: %v", err)
	}
	d := runtest.OpenDevices(t, "cpu", 0)
	c, err := d.OpByOp(eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept := c.One(ops.Fill{Meta: shape.F32(8)})
	if err := kept.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "still held") {
		t.Errorf("closed with a tensor: %v", err)
	}
	if err := errors.Join(kept.Release(), d.Close()); err != nil {
		t.Error(err)
	}
	if _, err := d.OpByOp(eager.ContextOptions{}); !errors.Is(err, berth.ErrClosed) {
		t.Errorf("on closed devices: %v", err)
	}
}

// A device that hangs is given up: calls fail, and the context closes.
func TestOpByOpGivesUpWhatHangs(t *testing.T) {
	hang, err := fault.Parse("cpu:0 launch 3 hang")
	if err != nil {
		t.Fatal(err)
	}
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu", Timeout: 100 * time.Millisecond}, berth.DevicesOptions{Faults: []fault.Fault{hang}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.OpByOp(eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := c.One(ops.Fill{Meta: shape.F32(8), Value: 1})
	for range 9 {
		x = c.One(ops.Unary{Fn: "neg"}, x)
	}
	if err := x.Wait(t.Context()); !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "devices.timeout") {
		t.Errorf("behind a launch that hangs: %v", err)
	}
	if err := x.Release(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); !errors.Is(err, device.ErrLost) {
		t.Errorf("closed with a device that hangs: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Small ops run on the caller's goroutine and allocate nothing, on devices that runs share
// too: nobody is told of the operations of their streams.
func TestOpByOpAllocatesNothing(t *testing.T) {
	if runtest.Slowdown > 1 {
		t.Skip("the race detector allocates")
	}
	c, err := runtest.OpenDevices(t, "cpu", 1<<20).OpByOp(eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var add graph.Op = ops.AddOp
	x, y := c.One(ops.Fill{Meta: shape.F32(16), Value: 1}), c.One(ops.Fill{Meta: shape.F32(16)})
	allocs := 1.0
	for i := 0; i < 100 && allocs > 0; i++ { // the first calls are compiled, and others queue behind them
		if err := y.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		allocs = testing.AllocsPerRun(100, func() { y = c.One(add, y, x.Ref()) })
	}
	if allocs > 0 {
		t.Errorf("%v allocations a call", allocs)
	}
	if err := errors.Join(x.Release(), y.Release(), c.Close()); err != nil {
		t.Error(err)
	}
}

// Host tensors, shapes that depend on contents, and gradients of gradients, as a program asks for them.
func TestOpByOpFromOutside(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu", 8<<20)
	c, err := d.OpByOp(eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.AllocHost(shape.F32(3), "")
	if err != nil {
		t.Fatal(err)
	}
	copy(shape.View[float32](h.Bytes()), []float32{0, 2, 3})
	x := h.Upload()
	tape := c.NewTape()
	loss := tape.One(ops.Binary{Fn: "mul"}, x.Ref(), tape.One(ops.Binary{Fn: "mul"}, x.Ref(), x.Ref()))
	slope, err := tape.Gradients(loss, x)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := tape.Gradients(slope[0], x)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Fetch(t.Context(), curve[0]); err != nil {
		t.Fatal(err)
	}
	if got := shape.View[float32](h.Bytes()); got[0] != 0 || got[1] != 12 || got[2] != 18 {
		t.Errorf("the second derivative of x³ at 0, 2 and 3 is %v", got)
	}
	where, err := c.Dynamic(ops.Nonzero{}, x).Tensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m := where[0].Meta(); !m.Equal(shape.I32(2, 1)) {
		t.Errorf("the places are %v", m)
	}
	err = errors.Join(loss.Release(), slope[0].Release(), curve[0].Release(), where[0].Release(), tape.Close(), h.Free(), c.Close(), d.Close())
	if err != nil {
		t.Error(err)
	}
}
