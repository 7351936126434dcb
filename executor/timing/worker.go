package timing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/costs"
)

// worker times the tasks of one device. They share tensors, as in a step of one
// microbatch.
type worker struct {
	m       *measurement
	dev     device.Device
	stream  device.Stream
	tasks   []*timed
	buffers map[Tensor]device.Buffer
}

// timed is a task that is compiled.
type timed struct {
	Task
	key     costs.Key
	known   bool              // its time is not needed
	exe     device.Executable // nil op by op
	ops     *segmentOps       // nil unless op by op
	repeats int               // launches in a row: short ones are timed together
	large   bool              // it does not fit in the device's memory, and gets no time
}

func (w *worker) open() (err error) {
	w.stream, err = w.dev.NewStream("measure")
	return err
}

// add compiles a task.
func (w *worker) add(ctx context.Context, t Task, k costs.Key, known bool) (err error) {
	x := &timed{Task: t, key: k, known: known, repeats: 1}
	stop := func() error { return context.Cause(ctx) }
	if w.m.o.OpByOp {
		x.ops, err = w.compileOps(t.Variant, stop)
	} else {
		x.exe, err = w.dev.Compile(t.Variant.Graph, device.CompileOptions{Alias: t.Variant.Alias, Stop: stop})
	}
	if err != nil {
		return fmt.Errorf("%s on %s: %w", t.Name, w.dev.ID(), err)
	}
	w.tasks = append(w.tasks, x)
	return nil
}

// needed reports whether any time of the device is wanted.
func (w *worker) needed() bool {
	for _, t := range w.tasks {
		if !t.known {
			return true
		}
	}
	return false
}

// work goes round the tasks until all workers have measured enough. The first round
// fills the tensors and is not timed.
func (w *worker) work(ctx context.Context) error {
	if len(w.tasks) == 0 {
		return nil
	}
	needed := w.needed()
	var begin time.Time
	for round := 0; needed || w.m.busy.Load() > 0; round++ {
		if round == 1 {
			begin = time.Now()
		}
		if err := w.round(ctx, round); err != nil {
			return err
		}
		if !slices.ContainsFunc(w.tasks, func(t *timed) bool { return !t.large }) {
			if needed {
				w.m.busy.Add(-1)
			}
			return nil
		}
		if !needed || round == 0 {
			continue
		}
		took := time.Since(begin)
		w.m.tell(w, min(float64(took)/float64(w.m.o.Least), float64(round)/usualRounds))
		if round >= leastRounds && (took > 4*w.m.o.Least || round >= usualRounds && took >= w.m.o.Least) {
			needed = false
			w.m.busy.Add(-1)
			w.m.tell(w, 1)
		}
	}
	return nil
}

// round runs each task that fits in the device's memory.
func (w *worker) round(ctx context.Context, round int) error {
	for _, t := range w.tasks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if t.large {
			continue
		}
		seconds, err := w.time(ctx, t)
		if errors.Is(err, device.ErrOutOfMemory) {
			t.large = true
			continue
		}
		if err != nil {
			return fmt.Errorf("measure %s on %s: %w", t.Name, w.dev.ID(), err)
		}
		if round == 0 || t.known {
			t.repeats = t.enough(seconds)
			continue
		}
		w.m.mu.Lock()
		w.m.times[t.key] = append(w.m.times[t.key], seconds)
		w.m.mu.Unlock()
	}
	return nil
}

// enough is the launches in a row of a task: enough for the clock, and for threads that
// sleep between launches. Op by op, the time in which a stream wakes up and ends must be
// little of the whole.
func (t *timed) enough(seconds float64) int {
	enough := 200e-6
	if t.ops != nil {
		enough = 2e-3
	}
	return min(50, 1+int(enough/max(seconds, 1e-9)))
}

// time runs a task, and gives the seconds of one launch. Many updates can lead to
// numbers that are not finite: the task then begins with new contents. A failure
// with these takes its time as well.
func (w *worker) time(ctx context.Context, t *timed) (seconds float64, err error) {
	for range 2 {
		seconds, err = w.run(ctx, t)
		if !errors.Is(err, device.ErrNonFinite) {
			return seconds, err
		}
		t.repeats = 1
		if err := w.free(); err != nil {
			return 0, err
		}
	}
	return seconds, nil
}

func (w *worker) run(ctx context.Context, t *timed) (seconds float64, err error) {
	if t.ops != nil {
		return w.runOps(ctx, t)
	}
	l, err := w.ready(ctx, t)
	if err != nil {
		return 0, err
	}
	before := w.stream.Busy()
	var done device.Event
	for range t.repeats {
		if done, err = w.stream.Launch(l.exe, l.in, l.out, l.scratch); err != nil {
			break
		}
	}
	if err == nil {
		err = ended(ctx, done)
	}
	seconds = float64(w.stream.Busy()-before) / 1e9 / float64(t.repeats)
	return seconds, errors.Join(err, l.end(w.stream))
}

// ended waits for an event, or until ctx is done.
func ended(ctx context.Context, done device.Event) error {
	err := done.Wait(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// launched is a task with the buffers that its launches take.
type launched struct {
	exe     device.Executable
	in, out []device.Buffer
	scratch device.Buffer
}

// ready takes the buffers of a task.
func (w *worker) ready(ctx context.Context, t *timed) (*launched, error) {
	in, out, scratch, err := w.memory(ctx, t)
	if err != nil {
		return nil, err
	}
	return &launched{t.exe, in, out, scratch}, nil
}

// launch queues a launch after an event.
func (l *launched) launch(s device.Stream, after device.Event) (device.Event, error) {
	if err := s.WaitFor(after); err != nil {
		return device.Event{}, err
	}
	return s.Launch(l.exe, l.in, l.out, l.scratch)
}

// end frees what the task alone has.
func (l *launched) end(s device.Stream) error {
	if l.scratch == nil {
		return nil
	}
	return l.scratch.Free(s.Record())
}
