package eager

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Whatever operation of a device fails, each call succeeds with the right numbers or has
// an error, later calls go on, and everything is given back.
func TestEveryFault(t *testing.T) {
	for _, op := range []fault.Op{fault.Launch, fault.CopyIn, fault.CopyOut, fault.Peer, fault.Alloc, fault.Compile} {
		for n := 1; n <= 5; n++ {
			for _, kind := range []fault.Kind{fault.Fail, fault.OOM, fault.Lost} {
				f := fault.Fault{Device: "cpu:0", Op: op, N: n, Kind: kind}
				t.Run(f.String(), func(t *testing.T) { runWithFault(t, f) })
			}
		}
	}
}

func runWithFault(t *testing.T, f fault.Fault) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 2, Threads: 2, MemoryBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	faulty, err := fault.Wrap(devs, []fault.Fault{f})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(faulty, ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const side = 1 << 12 // a quarter of the memory each
	for range 2 {
		list := []Tensor{c.FromBytes(shape.F32(side), make([]byte, 4*side), "")}
		want := []float32{0}
		step := func(x Tensor, v float32) { list, want = append(list, x), append(want, v) }
		step(c.One(ops.Fill{Meta: shape.F32(side), Value: 2}), 2)
		step(c.One(ops.AddOp, list[0].Ref(), list[1].Ref()), 2)
		step(c.One(graph.Op(ops.Affine{Scale: 3}), list[2].Ref()), 6)
		step(list[3].CopyTo("cpu:1"), 6)
		step(c.One(ops.AddOp, list[4].Ref(), list[4].Ref()), 12)
		step(list[5].CopyTo("cpu:0"), 12)
		step(c.One(ops.AddOp, list[6].Ref(), list[1].Ref()), 14)
		for i, x := range list {
			d, err := x.ToHost(bg)
			switch {
			case err == nil && d.Data().([]float32)[side-1] != want[i]:
				t.Errorf("tensor %d has %v, expected %v", i, d.Data().([]float32)[side-1], want[i])
			case err != nil && !errors.Is(err, fault.ErrInjected) && !errors.Is(err, device.ErrOutOfMemory):
				t.Errorf("tensor %d: %v", i, err)
			}
		}
		for _, x := range list {
			if err := x.Release(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Close(); err != nil && !errors.Is(err, fault.ErrInjected) {
		t.Errorf("closing the context: %v", err)
	}
	for _, d := range faulty {
		if err := d.Close(); err != nil && f.Kind != fault.Lost {
			t.Errorf("closing %s: %v", d.ID(), err)
		}
	}
}

// A failure of the device fails what was launched behind it, too, which is not run again: not
// by Restart either. Tensors that were there stay, and later calls run.
func TestFailureOfTheDevice(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var launches atomic.Int64
	gate := make(turnstile)
	faulty := fault.Intercept(devs, func(o fault.Operation) (out fault.Outcome) {
		if o.Op == fault.Launch {
			switch launches.Add(1) {
			case 2:
				out.After = device.Event{Queue: gate, Seq: 1}
			case 3:
				out.After = fault.Fails(fault.ErrInjected)
			}
		}
		return out
	})
	told := 0
	c, err := New(faulty, ContextOptions{Diagnose: func(*Error) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	step := ops.Affine{Scale: 1, Shift: 1}
	x := c.One(step, c.FromBytes(shape.F32(1), make([]byte, 4), "")) // launch 1
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	begin := make(chan struct{})
	saved := c.Call(nil, func([]*tensor.Dense) error { <-begin; return nil }) // the lane waits for it
	held := &Invocation{Op: step, Args: []Tensor{x.Ref()}, Chain: saved}
	c.Run(held)
	failed, behind := c.One(step, x.Ref()), c.One(step, x.Ref())
	close(begin)
	for end := time.Now().Add(time.Minute); launches.Load() < 4 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	close(gate)
	fails(t, failed.Wait(bg), fault.ErrInjected, "fault_test.go:", "affine: ")
	if err := behind.Wait(bg); err != failed.Err() {
		t.Errorf("a call behind it: %v", err)
	}
	c.Restart()
	if err := behind.Err(); err != failed.Err() || told != 1 || launches.Load() != 4 {
		t.Errorf("after Restart: %v, %d diagnoses, %d launches", err, told, launches.Load())
	}
	for _, y := range []Tensor{held.Results[0], c.One(step, x.Ref())} {
		d, err := y.ToHost(bg)
		if err != nil || d.Data().([]float32)[0] != 2 {
			t.Errorf("%v, %v", d, err)
		}
		_ = y.Release()
	}
	if err := errors.Join(x.Release(), failed.Release(), behind.Release(), c.Close(), faulty[0].Close()); err != nil {
		t.Error(err)
	}
}
