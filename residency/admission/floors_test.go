package admission

import (
	"context"
	"errors"
	"testing"
	"time"
)

// reserve starts a call, and waits until it is in the line or has its floors.
func reserve(t *testing.T, x *Floors, ctx context.Context, floors ...int64) <-chan error {
	t.Helper()
	result, waits := make(chan error, 1), make(chan struct{})
	go func() { result <- x.Reserve(ctx, floors, func() { close(waits) }) }()
	select {
	case <-waits:
	case err := <-result:
		result <- err
	case <-time.After(10 * time.Second):
		t.Fatal("a call neither waits nor returns")
	}
	return result
}

// Of those that need memory of the same device, the first goes first.
func TestFloorsInOrder(t *testing.T) {
	x, ctx := NewFloors([]int64{10, 10}), t.Context()
	if err := <-reserve(t, x, ctx, 8); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancelCause(ctx)
	large := reserve(t, x, over, 9)
	small := reserve(t, x, ctx, 1)
	if err := <-reserve(t, x, ctx, 0, 9); err != nil {
		t.Fatal(err)
	}
	if _, waiting := x.Reserved(); waiting != 2 {
		t.Errorf("%d wait, expected 2: the small one came after the large one", waiting)
	}
	stop := errors.New("enough")
	cancel(stop)
	if err := <-large; !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if err := <-small; err != nil {
		t.Error(err)
	}
	if have, _ := x.Reserved(); have[0] != 9 || have[1] != 9 {
		t.Errorf("%d bytes are reserved", have)
	}
}

// Close ends those that wait, and later calls.
func TestClosedFloors(t *testing.T) {
	x, ctx := NewFloors([]int64{10}), t.Context()
	if err := <-reserve(t, x, ctx, 10); err != nil {
		t.Fatal(err)
	}
	waits := reserve(t, x, ctx, 1)
	closed := errors.New("closed")
	x.Close(closed)
	if err := <-waits; !errors.Is(err, closed) {
		t.Errorf("got %v", err)
	}
	x.Release([]int64{10})
	if err := x.Reserve(ctx, []int64{1}, nil); !errors.Is(err, closed) {
		t.Errorf("got %v", err)
	}
}

// The loss of a device ends the calls that wait for its memory, and lets those behind
// them go on.
func TestLostFloors(t *testing.T) {
	x, ctx := NewFloors([]int64{10, 10}), t.Context()
	if err := <-reserve(t, x, ctx, 10, 5); err != nil {
		t.Fatal(err)
	}
	both, other := reserve(t, x, ctx, 1, 6), reserve(t, x, ctx, 0, 5)
	lost := errors.New("lost")
	x.Lose(0, lost)
	if err := <-both; !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
	if err := <-other; err != nil {
		t.Error(err)
	}
	x.Release([]int64{10, 5})
	if err := x.Reserve(ctx, []int64{1}, nil); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
}
