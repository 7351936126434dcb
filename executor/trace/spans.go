package trace

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency/ledger"
)

// Spans collect when each operation ran, and what it was for. Devices tell when; the
// runtime tells the tasks of launches, residency the tensors of copies. The end of an
// operation, an event, is in both. Spans are safe for concurrent use, and collect
// nothing before Begin.
type Spans struct {
	on      atomic.Bool
	mu      sync.Mutex
	start   time.Time
	first   int // steps taken before the run's first
	spans   []device.Span
	kernels []device.KernelSpan
	steps   []stepSpan
	tasks   map[device.Event]executor.Launched
	copies  map[device.Event]ledger.Row
}

// stepSpan is a step as the training loop saw it.
type stepSpan struct {
	step       int
	start, end time.Time
}

// Begin forgets what was collected, and starts collecting.
func (t *Spans) Begin() {
	t.mu.Lock()
	t.start, t.first, t.spans, t.kernels, t.steps = time.Now(), 0, nil, nil, nil
	t.tasks, t.copies = map[device.Event]executor.Launched{}, map[device.Event]ledger.Row{}
	t.mu.Unlock()
	t.on.Store(true)
}

// End stops collecting.
func (t *Spans) End() { t.on.Store(false) }

// Collecting reports whether Begin was called, and End was not.
func (t *Spans) Collecting() bool { return t.on.Load() }

// maxSpans bounds the memory. The oldest spans are kept: they show how a step
// runs.
const maxSpans = 1 << 18

// add calls f, which appends a span, unless the trace is off or full.
func (t *Spans) add(f func()) {
	if !t.on.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans)+len(t.kernels) < maxSpans {
		f()
	}
}

// Add is called by the streams of devices, for each operation.
func (t *Spans) Add(s device.Span) { t.add(func() { t.spans = append(t.spans, s) }) }

// Kernel is called by the streams of devices, for each kernel.
func (t *Spans) Kernel(k device.KernelSpan) { t.add(func() { t.kernels = append(t.kernels, k) }) }

// Launched is called for each task that is queued.
func (t *Spans) Launched(x executor.Launched) { t.add(func() { t.tasks[x.Event] = x }) }

// Moved is called for each transfer.
func (t *Spans) Moved(r ledger.Row) {
	if r.Event != (device.Event{}) {
		t.add(func() { t.copies[r.Event] = r })
	}
}

// from numbers the steps: so many were taken before the first.
func (t *Spans) from(steps int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first = steps
}

// step adds a step that the training loop has timed.
func (t *Spans) step(number int, start, end time.Time) {
	t.add(func() { t.steps = append(t.steps, stepSpan{number, start, end}) })
}
