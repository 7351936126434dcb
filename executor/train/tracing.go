package train

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/errs"
)

// ErrNoStep is returned by Run.TraceStep where no step can be traced: no training is under way, or it ended before
// a step did.
var ErrNoStep = errors.New("no step was traced")

// tracing is where a run is asked for the trace of a step. A training looks at it before each step, which costs one
// load.
type tracing struct {
	asked atomic.Pointer[wish] // nil: nobody asks

	mu     sync.Mutex
	trains bool // a training is under way
}

// wish is that for the trace of the next step.
type wish struct {
	taken  bool        // a step is traced, or was; of the goroutine that trains
	answer chan traced // has room for one
}

// traced is a step that was traced.
type traced struct {
	spans *trace.Spans
	of    trace.StepOf
	err   error
}

// TraceStep asks the training under way, by Train or Start, for the trace of the next step that it begins, and waits
// until that has ended. It may be called from any goroutine, and nothing is traced before. Where ctx ends first, the
// error is its cause. A second call meanwhile fails with errs.ErrInUse, and a call without a training with ErrNoStep.
// On shared devices, and with several processes, the trace has what this run does on the devices of this process.
func (r *Run) TraceStep(ctx context.Context) (*trace.StepTrace, error) {
	w := &wish{answer: make(chan traced, 1)}
	if err := r.tracing.ask(w); err != nil {
		return nil, err
	}
	defer r.tracing.asked.CompareAndSwap(w, nil)
	select {
	case x := <-w.answer:
		if x.err != nil {
			return nil, x.err
		}
		return x.spans.StepTrace(x.of), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: no step has begun and ended meanwhile", context.Cause(ctx))
	}
}

// ask takes a wish.
func (t *tracing) ask(w *wish) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.trains:
		return fmt.Errorf("%w: no training is under way", ErrNoStep)
	case !t.asked.CompareAndSwap(nil, w):
		return fmt.Errorf("%w: a step is being traced: ask again once that has ended", errs.ErrInUse)
	}
	return nil
}

// begin begins a training. Its end calls end.
func (t *tracing) begin() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trains = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.trains = false
		t.asked.Load().refuse("the training has ended")
	}
}

// refuse answers a wish, unless that was done.
func (w *wish) refuse(why string) {
	if w == nil {
		return
	}
	select {
	case w.answer <- traced{err: fmt.Errorf("%w: %s", ErrNoStep, why)}:
	default:
	}
}

// tracedStep is a step that is traced while it runs.
type tracedStep struct {
	wish  *wish
	spans *trace.Spans
	of    trace.StepOf
}

// traceNext begins to trace the step to come, if somebody asks for that. Who asks while a step is traced for somebody who
// has left has one after it.
func (l *loop) traceNext() {
	w := l.a.run.tracing.asked.Load()
	if w == nil || w.taken || l.traced != nil {
		return
	}
	w.taken = true
	s := &tracedStep{wish: w, spans: &trace.Spans{}}
	s.of = trace.StepOf{Net: l.a.load.Net, Ticket: l.a.prog.Next(), Before: l.first, Model: l.a.session.Config.Name}
	s.spans.Begin()
	l.a.session.Trace(l.a.rt, s.spans)
	l.traced = s
}

// predictTraced predicts the step that is traced, while it runs.
func (l *loop) predictTraced(ctx context.Context, samples int) {
	s := l.traced
	if s == nil || s.of.Predicted != nil {
		return
	}
	s.of.Plan, s.of.Partial = l.a.prog.Plan(), samples < l.a.session.Sizes.Batch
	var err error
	if s.of.Predicted, err = l.a.session.Times.Predict(ctx, s.of.Plan); err != nil {
		l.endTrace(err.Error())
	}
}

// answerTraced answers who asked for the step that is traced, if that is the one that has just ended.
func (l *loop) answerTraced() {
	s := l.traced
	if s == nil || s.of.Before+int(s.of.Ticket) != l.a.done {
		return
	}
	l.stopTrace()
	select {
	case s.wish.answer <- traced{spans: s.spans, of: s.of}:
	default: // it was refused
	}
}

// endTrace ends the trace of a step that cannot be shown.
func (l *loop) endTrace(why string) {
	if s := l.traced; s != nil {
		l.stopTrace()
		s.wish.refuse(why)
	}
}

// stopTrace collects nothing more.
func (l *loop) stopTrace() {
	l.a.session.Trace(l.a.rt, nil)
	l.traced.spans.End()
	l.traced = nil
}
