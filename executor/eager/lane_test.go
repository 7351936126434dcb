package eager

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestFlights(t *testing.T) {
	var f flights
	sure, unsure := &work{entry: &entry{sure: true}}, &work{entry: &entry{}}
	for i := range 100 {
		w := sure
		if i%3 == 0 {
			w = unsure
		}
		f.add(w)
		if f.newest() != w {
			t.Fatal("the newest is another")
		}
		if i%2 == 1 && f.oldest() != f.take() {
			t.Fatal("the oldest is another")
		}
	}
	if f.count() != 50 || f.unsure != 17 {
		t.Errorf("%d calls, %d unsure", f.count(), f.unsure)
	}
	for f.count() > 0 {
		f.take()
	}
	if f.unsure != 0 || len(f.list) != 0 {
		t.Errorf("%d calls left, %d unsure", len(f.list), f.unsure)
	}
}

// A lane launches only so many calls ahead of its device. Cancel skips all but the one that
// runs.
func TestFlightsAreBounded(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 22})
	if err != nil {
		t.Fatal(err)
	}
	var launches atomic.Int64
	gate := make(turnstile)
	held := fault.Intercept(devs, func(o fault.Operation) (out fault.Outcome) {
		if o.Op == fault.Launch && launches.Add(1) == 1 {
			out.After = device.Event{Queue: gate, Seq: 1}
		}
		return out
	})
	c, err := New(held, ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	begin := make(chan struct{})
	saved := c.Call(nil, func([]*tensor.Dense) error { <-begin; return nil }) // the lane waits for it
	step := ops.Affine{Scale: 1, Shift: 1}
	x := c.FromBytes(shape.F32(1), make([]byte, 4), "")
	first := &Invocation{Op: step, Args: []Tensor{x.Ref()}, Chain: saved}
	c.Run(first)
	y := first.Results[0].Ref()
	for range 2 * mostInFlight {
		y = c.One(step, y)
	}
	close(begin)
	for end := time.Now().Add(time.Minute); launches.Load() < mostInFlight && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if n := launches.Load(); n != mostInFlight {
		t.Errorf("%d calls launched, expected %d", n, mostInFlight)
	}
	c.Cancel(nil)
	close(gate)
	fails(t, y.Wait(bg), ErrCanceled, "lane_test.go:")
	if n := launches.Load(); n != mostInFlight {
		t.Errorf("%d calls launched after Cancel", n-mostInFlight)
	}
	c.Restart()
	z := c.One(step, x)
	d, err := z.ToHost(bg)
	if err != nil || d.Data().([]float32)[0] != 1 {
		t.Errorf("%v after Restart: %v", d, err)
	}
	if err := errors.Join(first.Results[0].Release(), y.Release(), z.Release(), c.Close(), held[0].Close()); err != nil {
		t.Error(err)
	}
}

// turnstile is a queue whose one operation ends when it is closed.
type turnstile chan struct{}

func (t turnstile) Finished(uint64) bool {
	select {
	case <-t:
		return true
	default:
		return false
	}
}

func (turnstile) Err(uint64) error { return nil }

func (t turnstile) Await(ctx context.Context, _ uint64) error {
	select {
	case <-t:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
