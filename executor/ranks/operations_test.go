package ranks

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/testall"
)

// TestOperations: whoever waits hears of the end of its own operation, in any order of ends, with several that wait
// and some that give up.
func TestOperations(t *testing.T) {
	var o Operations
	var ends, waits sync.WaitGroup
	for range 8 {
		waits.Go(func() {
			for range 200 {
				e := o.Begin()
				done := make(chan struct{})
				for range rand.IntN(3) {
					waits.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(50))*time.Microsecond)
						defer cancel()
						_ = e.Wait(ctx)
					})
				}
				ends.Go(func() {
					close(done)
					o.End(e, nil)
				})
				if err := e.Wait(context.Background()); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
				default:
					t.Error("the wait ended before the operation")
				}
				if !e.Done() || e.Err() != nil {
					t.Error("an operation that ended is open, or failed")
				}
			}
		})
	}
	waits.Wait()
	ends.Wait()
	if len(o.slots) > 64 || len(o.free) != len(o.slots) {
		t.Errorf("%d slots, %d of them free, for 8 operations at once", len(o.slots), len(o.free))
	}
}

// TestOperationsFail: a failure ends what is open and what begins later; what ended well stays so.
func TestOperationsFail(t *testing.T) {
	var o Operations
	well, open := o.Begin(), o.Begin()
	o.End(well, nil)
	cause := errors.New("the wire is cut")
	waited := make(chan error)
	go func() { waited <- open.Wait(context.Background()) }()
	o.Fail(cause)
	o.End(open, nil)
	later := o.Begin()
	for name, got := range map[string]error{"waiting": <-waited, "open": open.Err(), "later": later.Wait(context.Background())} {
		if !errors.Is(got, cause) {
			t.Errorf("%s: %v, want %v", name, got, cause)
		}
	}
	if well.Err() != nil || !well.Done() {
		t.Error("an operation that had ended well failed afterwards")
	}
}

// TestOperationsAllocate: nothing is allocated once there are as many slots as are open at once.
func TestOperationsAllocate(t *testing.T) {
	if testall.Race {
		t.Skip("the race detector allocates")
	}
	var o Operations
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		var events [4]device.Event
		for i := range events {
			events[i] = o.Begin()
		}
		for _, e := range events {
			o.End(e, nil)
			_ = e.Wait(ctx)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
