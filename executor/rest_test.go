package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/residency"
)

// TestLengthOfTurn: a turn begins with its first step, and lasts ten times as long as that, within bounds.
func TestLengthOfTurn(t *testing.T) {
	for _, x := range []struct{ first, lasts time.Duration }{
		{time.Millisecond, time.Second}, {time.Second, 10 * time.Second}, {time.Minute, 5 * time.Minute}, {time.Hour, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			var turn turn
			for range 2 {
				time.Sleep(time.Hour) // it opens, and compiles
				if turn.over() {
					t.Error("a turn without a step is over")
				}
				turn.step()
				time.Sleep(x.first)
				turn.step()
				turn.stepped()
				turn.stepped()
				if rest := x.lasts - x.first; rest > 0 {
					time.Sleep(rest - 1)
					if turn.over() {
						t.Errorf("the turn after a step of %v is over before %v", x.first, x.lasts)
					}
					time.Sleep(time.Nanosecond)
				}
				if !turn.over() {
					t.Errorf("the turn after a step of %v is not over after %v", x.first, x.lasts)
				}
				turn.begin()
			}
		})
	}
}

// over ends the turn of a runtime.
func over(r *Runtime) {
	r.rest.turn.began = time.Now().Add(-time.Hour)
	r.rest.turn.first.Store(1)
}

// TestTurns: a runtime whose turn is over gives its memory to one that waits for it, and gets it again after that one's turn. It
// keeps it where nobody gets it, and where its work is to end.
func TestTurns(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDevices(devs, residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waits, yields := make(chan struct{}, 1), 0
	join := func(ctx context.Context, name string) (*Runtime, error) {
		return d.Join(ctx, JoinOptions{Tenant: residency.TenantOptions{
			Name: name, Floors: []int64{600 << 10}, Turns: true,
			Waiting: func() { waits <- struct{}{} }, Yielded: func() { yields++ },
		}})
	}
	joining := func(ctx context.Context, name string) <-chan error {
		result := make(chan error, 1)
		go func() {
			r, err := join(ctx, name)
			if err == nil { // it has had its turn
				err = r.Close()
			}
			result <- err
		}()
		<-waits
		return result
	}
	a, err := join(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	over(a)
	if n := testing.AllocsPerRun(100, func() { _ = a.MustRest() }); n > 0 || a.MustRest() {
		t.Errorf("nobody waits: it rests, or allocates %v times", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b := joining(ctx, "b")
	a.rest.turn.begin()
	if a.MustRest() {
		t.Error("a turn without a step is over")
	}
	over(a)
	if !a.MustRest() {
		t.Error("the turn is over, and goes on")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	a.RestUntil(ended)
	if a.MustRest() {
		t.Error("work that is to end gives its memory away")
	}
	a.RestUntil(t.Context())
	if err := a.Rest(ended); err != nil || yields > 0 {
		t.Errorf("the work of a context that has ended rests: %v", err)
	}
	cancel()
	if err := <-b; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := a.Rest(t.Context()); err != nil || yields > 0 || !a.rest.turn.over() {
		t.Errorf("who waited has left: %v", err)
	}
	for n := 1; n <= 2; n++ { // without a gate
		b := joining(t.Context(), "b")
		over(a)
		if err := errors.Join(a.Rest(t.Context()), <-b); err != nil || yields != n || a.rest.turn.over() || a.Stood() == 0 {
			t.Errorf("turn %d: %v", n, err)
		}
	}
	c := joining(t.Context(), "c")
	over(a)
	failure := errors.New("enough")
	if err := a.RestWith(t.Context(), func(context.Context, <-chan struct{}) error { return failure }); !errors.Is(err, failure) || !a.Residency.Suspended() {
		t.Errorf("standing ends with %v", err)
	}
	if err := errors.Join(<-c, a.Rest(t.Context()), a.Close(), d.Close(), devs[0].Close()); err != nil {
		t.Error(err)
	}
}
