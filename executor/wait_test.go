package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

func TestTicketsInAnyOrder(t *testing.T) {
	r := mustRig(t, mlpJob(2), "cpu", 2, "1f1b", residency.ManagerOptions{})
	var tickets []executor.Ticket
	for i := range 6 {
		b, err := r.feed(i, r.batch())
		if err != nil {
			t.Fatal(err)
		}
		want := r.prog.Next()
		ticket, err := r.prog.Step(t.Context(), b)
		if err != nil || ticket != want {
			t.Fatalf("got ticket %d, %v, Next said %d", ticket, err, want)
		}
		tickets = append(tickets, ticket)
	}
	for _, i := range []int{5, 4, 5, 0, 3, 1, 2} {
		if err := r.prog.Wait(short(t), tickets[i]); err != nil {
			t.Errorf("ticket %d: %v", tickets[i], err)
		}
	}
	for _, never := range []executor.Ticket{0, 7, 8, 1000} {
		if err := r.prog.Wait(short(t), never); err != nil {
			t.Errorf("ticket %d, which was never given: %v", never, err)
		}
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Error(err)
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	j := faultJob()
	j.last = 0
	r, g := gatedRig(t, j, faults.Launch, 3)
	for i := range 2 {
		step(t, r, r.prog, i, j.batch())
	}
	b, err := r.feed(2, j.batch())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := r.prog.Step(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("step: got %v, want the deadline", err)
		}
		if err := r.prog.Wait(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: got %v, want the deadline", err)
		}
		if err := r.prog.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain: got %v, want the deadline", err)
		}
		cancel()
	}
	if r.prog.Next() != 3 {
		t.Errorf("the next ticket is %d, want 3", r.prog.Next())
	}
	g.open()
	if _, err := r.prog.Step(short(t), b); err != nil {
		t.Fatal(err)
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
}

// endingContext has ended. Asking for its error lets a step end first.
type endingContext struct {
	context.Context
	end func()
}

func (c endingContext) Err() error {
	c.end()
	return c.Context.Err()
}

// A step that ends well while the context of its waiter ends is over: the runtime
// goes on.
func TestStepAndContextEndTogether(t *testing.T) {
	j := faultJob()
	j.last = 0
	r, g := gatedRig(t, j, faults.Launch, 3)
	step(t, r, r.prog, 0, j.batch())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx := endingContext{ended, func() {
		g.open()
		if _, err := r.prog.WeightsHash(short(t)); err != nil {
			t.Error(err)
		}
	}}
	if err := r.prog.Wait(ctx, 1); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	step(t, r, r.prog, 1, j.batch())
	if err := r.prog.Drain(short(t)); err != nil {
		t.Error(err)
	}
}
