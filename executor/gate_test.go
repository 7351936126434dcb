package executor

import (
	"context"
	"errors"
	"testing"
	"time"
)

// work does a model's work until stop is closed: it goes through the gate again and again.
func work(t *testing.T, g *Gate, stop <-chan struct{}, take func(context.Context) error) (ended <-chan error) {
	t.Helper()
	leave, err := g.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer leave()
		for {
			err := g.Pass(context.Background(), Passage{Take: take, Stand: func(opens <-chan struct{}) error {
				select {
				case <-opens:
					return nil
				case <-stop:
					return ErrSuspended
				}
			}})
			if err != nil {
				done <- err
				return
			}
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
		}
	}()
	return done
}

// soon is a context for what should not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestGate: work stands still when Suspend returns, and goes on with Continue, whatever the order of calls.
func TestGate(t *testing.T) {
	g, stop := NewGate(), make(chan struct{})
	if err := errors.Join(g.Suspend(soon(t)), g.Suspend(soon(t))); err != nil { // there is no work yet
		t.Fatal(err)
	}
	began := make(chan struct{}, 1)
	taken := func(context.Context) error {
		select {
		case began <- struct{}{}:
		default:
		}
		return nil
	}
	ended := work(t, g, stop, taken)
	for range 3 {
		if err := g.Suspend(soon(t)); err != nil {
			t.Fatal(err)
		}
		select { // what was taken before
		case <-began:
		default:
		}
		time.Sleep(time.Millisecond)
		if len(began) > 0 {
			t.Fatal("it works while it is suspended")
		}
		g.Continue()
		g.Continue()
		select {
		case <-began:
		case <-soon(t).Done():
			t.Fatal("it does not go on")
		}
	}
	close(stop)
	if err := <-ended; err != nil && !errors.Is(err, ErrSuspended) {
		t.Error(err)
	}
	if err := g.Suspend(soon(t)); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// TestGateWhileItWaits: work that waits for memory gives that up when somebody suspends it, and waits
// again later.
func TestGateWhileItWaits(t *testing.T) {
	g, stop := NewGate(), make(chan struct{})
	waits, tries := make(chan struct{}, 8), 0
	ended := work(t, g, stop, func(ctx context.Context) error {
		tries++
		if tries == 2 {
			close(stop)
			return nil
		}
		waits <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	<-waits
	if err := g.Suspend(soon(t)); err != nil {
		t.Fatal(err)
	}
	g.Continue()
	if err := <-ended; err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// TestSuspendEnds: the end of its context ends the waiting of Suspend, and Continue does. The work stands
// still at the gate all the same.
func TestSuspendEnds(t *testing.T) {
	g := NewGate()
	leave, err := g.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := g.Suspend(over); !errors.Is(err, enough) || !g.Closed() {
		t.Errorf("%v, closed: %t", err, g.Closed())
	}
	result := make(chan error, 1)
	go func() { result <- g.Suspend(context.Background()) }()
	g.Continue()
	if g.Closed() { // the goroutine came later
		g.Continue()
	}
	leave()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// TestIdleWork: work that no goroutine does stands still by its own function, once for each time that it
// went on.
func TestIdleWork(t *testing.T) {
	g, rested := NewGate(), 0
	g.SetIdle(func() { rested++ })
	if err := errors.Join(g.Suspend(soon(t)), g.Suspend(soon(t))); err != nil || rested != 1 {
		t.Errorf("it was settled %d times, %v", rested, err)
	}
	g.Continue()
	leave, err := g.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Enter(canceled(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a second goroutine: %v", err)
	}
	leave()
	if err := g.Suspend(soon(t)); err != nil || rested != 2 {
		t.Errorf("it was settled %d times, %v", rested, err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
