package admission

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// reserve starts a call, and waits until it is in the line or has its floors.
func reserve(t *testing.T, x *Floors, ctx context.Context, floors ...int64) <-chan error {
	t.Helper()
	result, waits := make(chan error, 1), make(chan struct{})
	go func() { result <- x.Reserve(ctx, floors, nil, func() { close(waits) }) }()
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
	x.Release([]int64{10}, nil)
	if err := x.Reserve(ctx, []int64{1}, nil, nil); !errors.Is(err, closed) {
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
	x.Release([]int64{10, 5}, nil)
	if err := x.Reserve(ctx, []int64{1}, nil, nil); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
}

// TestCommonFloors: what is common is reserved once, from the first user to the last. Who waits with it needs
// it anew, once those that had it have gone.
func TestCommonFloors(t *testing.T) {
	x, ctx, base := NewFloors([]int64{10, 10}), t.Context(), NewCommon([]int64{0, 4})
	reserved := func(want ...int64) {
		t.Helper()
		if have, _ := x.Reserved(); !slices.Equal(have, want) {
			t.Errorf("%d bytes are reserved, expected %d", have, want)
		}
	}
	for _, floors := range [][]int64{{1, 2}, {1, 3}} {
		if err := x.Reserve(ctx, floors, base, func() { t.Error("waits") }); err != nil {
			t.Fatal(err)
		}
	}
	reserved(2, 9)
	large := reserve(t, x, ctx, 0, 8) // waits
	waits, third := make(chan struct{}), make(chan error, 1)
	go func() { third <- x.Reserve(ctx, []int64{1}, base, func() { close(waits) }) }()
	select {
	case err := <-third: // it needs nothing of the device that another one waits for
		if err != nil {
			t.Fatal(err)
		}
	case <-waits:
		t.Fatal("a user of what is reserved waits")
	}
	x.Release([]int64{1, 2}, base)
	x.Release([]int64{1, 3}, base)
	reserved(1, 4)
	x.Release([]int64{1}, base)
	if err := <-large; err != nil {
		t.Fatal(err)
	}
	reserved(0, 8)
	over, cancel := context.WithCancelCause(ctx)
	waits = make(chan struct{})
	go func() { third <- x.Reserve(over, []int64{0, 1}, base, func() { close(waits) }) }()
	<-waits
	stop := errors.New("enough")
	cancel(stop)
	if err := <-third; !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	lost := errors.New("lost")
	x.Lose(1, lost)
	if err := x.Reserve(ctx, []int64{1}, base, nil); !errors.Is(err, lost) {
		t.Errorf("without the device of what is common: %v", err)
	}
	x.Release([]int64{0, 8}, nil)
	reserved(0, 0)
}
