package residency_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
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
