package boundary

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// Watch copies a ring out while steps run. A copy queues behind the newest step, and
// neither the host nor the steps after it wait for its end: the next step that writes
// the ring waits, on its stream, until the copy has read it. One goroutine uses it.
type Watch struct {
	staging *residency.Staging // of the ring
	step    int                // the newest in the copy under way; 0: none is
	every   time.Duration
	timer   *time.Timer // sets due
	due     atomic.Bool // the next copy is due: to look at the clock after each step would take longer
}

// NewWatch watches a ring, once in so long. The caller closes it before the runtime.
func (r Rings) NewWatch(name string, every time.Duration) *Watch {
	w := &Watch{staging: r.Runtime.Residency.NewStaging(r.Program.Var(name)), every: every}
	w.timer = time.AfterFunc(every, func() { w.due.Store(true) })
	return w
}

// After is called after a step was queued. It returns the ring up to some step, once a
// copy of it has ended; ok is false otherwise. The values are valid until the next
// call. A copy that failed is left out: the failure shows where the ring is used.
func (w *Watch) After(ctx context.Context, step int) (at int, v Values, ok bool, err error) {
	if w.step > 0 && w.staging.Arrived(0) {
		at, w.step = w.step, 0
		if w.staging.Wait(ctx, 0) == nil {
			v, ok = shape.View[float32](w.staging.Bytes(0)), true
		}
		return at, v, ok, nil
	}
	if w.step > 0 || w.Idle() {
		return 0, nil, false, nil
	}
	w.due.Store(false)
	w.timer.Reset(w.every)
	if err := w.staging.Queue(ctx, ledger.Watch, 0); err != nil {
		return 0, nil, false, err
	}
	w.step = step
	return 0, nil, false, nil
}

// Idle reports whether After has nothing to do: no copy is due, and none is under way.
func (w *Watch) Idle() bool { return w.step == 0 && !w.due.Load() }

// Close frees the memory of copies. A nil Watch has none.
func (w *Watch) Close() {
	if w != nil {
		w.timer.Stop()
		w.staging.Close()
	}
}
