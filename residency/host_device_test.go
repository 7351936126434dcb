package residency_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// gate is a queue whose operations end when it is closed.
type gate chan struct{}

func (g gate) Finished(uint64) bool {
	select {
	case <-g:
		return true
	default:
		return false
	}
}

func (g gate) Err(uint64) error { return nil }

func (g gate) Await(ctx context.Context, _ uint64) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestPullBacksLeaveTheManagerFree: while hundreds of pull-backs wait for a device
// that does not go on, the manager answers, and the pull-back ends with its
// context.
func TestPullBacksLeaveTheManagerFree(t *testing.T) {
	const tensors = 1000
	m, _, streams := open(t, "cpu", 1, 1<<20)
	g := make(gate)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var ts []*residency.Tensor
	var needs []residency.Need
	for i := range tensors {
		x, err := m.Declare(residency.Key{Value: fmt.Sprint("t", i)}, shape.F32(4), device.Weight)
		check(err)
		ts, needs = append(ts, x), append(needs, residency.Need{Tensor: x, Mode: residency.Write})
	}
	var l residency.Lease
	check(m.Acquire(ctx, streams[0], needs, 0, &l))
	check(streams[0].WaitFor(device.Event{Queue: g, Seq: 1}))
	check(m.Release(&l, streams[0].Record()))
	pulled := make(chan error, 1)
	go func() { pulled <- m.PullBack(ctx, ledger.Epoch, ts...) }()
	told := make(chan string, 1)
	go func() {
		for m.Ledger().Total(ledger.PullBack).Count < tensors && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		told <- ts[0].Location()
	}()
	select {
	case where := <-told:
		if where != "cpu:0, clean on host" {
			t.Errorf("the tensor is at %s", where)
		}
	case <-time.After(20 * time.Second):
		t.Error("the manager does not answer")
	}
	cancel()
	if err := <-pulled; !errors.Is(err, context.Canceled) {
		t.Errorf("the pull-back ends with %v", err)
	}
	if err := m.PullBack(ctx, ledger.Epoch, ts...); !errors.Is(err, context.Canceled) {
		t.Errorf("a pull-back that begins after its context has ended: %v", err)
	}
	close(g)
	check(m.PullBack(t.Context(), ledger.Epoch, ts...))
}
