package residency_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// An output goes to another device as soon as it is complete, while its launch waits
// for an input of a later kernel.
func TestOutputLeavesBeforeItsLaunchEnds(t *testing.T) {
	m, devs, streams := open(t, "cpu", 2, 1<<20)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	x, err := devs[0].Compile(devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("a", shape.F32(4))), ops.Exp(b, b.Input("b", shape.F32(5)))}
	}), device.CompileOptions{})
	ok(err)
	var ts []*residency.Tensor
	var needs []residency.Need
	for i, n := range []int{4, 5, 4, 5} {
		mode := residency.Read
		if i >= 2 {
			mode = residency.Write
		}
		tensor, err := m.Declare(residency.Key{Value: string(rune('a' + i))}, shape.F32(n), device.Activation)
		ok(err)
		if i < 2 {
			ok(m.Fill(tensor, make([]byte, 4*n)))
		}
		ts, needs = append(ts, tensor), append(needs, residency.Need{Tensor: tensor, Mode: mode})
	}
	var l, next residency.Lease
	ok(m.Acquire(t.Context(), streams[0], needs, x.Memory().Temporary, &l))
	late := make(gate)
	streams[0].(device.Delayer).DelayRead(l.Buffers[1], device.Event{Queue: late, Seq: 1})
	done, err := streams[0].Launch(x, l.Buffers[:2], l.Buffers[2:], l.Scratch)
	ok(err)
	for i := 2; i < 4; i++ {
		l.Ready[i] = l.Buffers[i].Ready()
	}
	ok(m.Release(&l, done))
	ok(m.Acquire(t.Context(), streams[1], []residency.Need{{Tensor: ts[2], Device: 1, Mode: residency.Read}}, 0, &next))
	ok(streams[1].Record().Wait(t.Context())) // the copy has arrived
	ok(m.Release(&next, streams[1].Record()))
	if done.Done() {
		t.Error("the launch has ended before its input was there")
	}
	close(late)
	ok(done.Wait(t.Context()))
	x.Release()
}

// A copy-in that fails is repeated after a launch was queued that overwrites its buffer: the
// launch is still the last write, and a copy of what it writes waits for it.
func TestRepeatedCopyInIsNoLaterWrite(t *testing.T) {
	opened, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(err)
	copies := 0
	devs := fault.Intercept(opened, func(o fault.Operation) (out fault.Outcome) {
		if o.Op == fault.CopyIn {
			if copies++; copies == 1 {
				out.After = fault.Fails(errors.New("the copy's failure"))
			}
		}
		return out
	})
	m, err := residency.Open(devs, residency.ManagerOptions{}, residency.TenantOptions{})
	ok(err)
	s, err := devs[0].NewStream("compute")
	ok(err)
	x, err := devs[0].Compile(devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("a", shape.F32(1)))}
	}), device.CompileOptions{Alias: []int{0}})
	ok(err)
	a, err := m.Declare(residency.Key{Value: "a"}, shape.F32(1), device.Weight)
	ok(err)
	ok(m.Fill(a, shape.Bytes([]float32{5})))
	var l residency.Lease
	ok(m.Acquire(t.Context(), s, []residency.Need{{Tensor: a, Mode: residency.ReadWrite}}, x.Memory().Temporary, &l))
	late := make(gate)
	ok(s.WaitFor(device.Event{Queue: late, Seq: 1}))
	done, err := s.Launch(x, l.Buffers, l.Buffers, l.Scratch)
	ok(err)
	if failures := m.Settle(); failures != nil || len(m.Failures()) != 1 {
		t.Fatalf("the copy was not repeated: %v", failures)
	}
	if l.Ready[0] = l.Buffers[0].Ready(); l.Ready[0] != done {
		t.Errorf("the buffer is ready at %v, its last write ends at %v", l.Ready[0], done)
	}
	ok(m.Release(&l, done))
	out := m.NewStaging(a)
	ok(out.Queue(t.Context(), ledger.Checkpoint, 0))
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := out.Wait(soon, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a copy of what the launch writes did not wait for it: %v", err)
	}
	close(late)
	ok(out.Wait(t.Context(), 0))
	if got := shape.View[float32](out.Bytes(0))[0]; got != -5 {
		t.Errorf("copied %v, expected -5", got)
	}
	out.Close()
	x.Release()
	ok(s.Close())
	ok(m.Close())
	ok(opened[0].Close())
}
