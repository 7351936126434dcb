package timing

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/costs"
)

// workers are one for each device.
type workers []*worker

// worker times the tasks of one device.
type worker struct {
	*store
	tasks []*timed
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

// openWorkers compiles the tasks. A device without tasks works on those of the first one
// that has some, and its times do not count.
func openWorkers(ctx context.Context, devs []device.Device, tasks []Task, o Options) (workers, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	var ws workers
	all, seen := specs(devs), map[costs.Key]bool{}
	for d, dev := range devs {
		s, err := openStore(dev)
		if err != nil {
			return nil, errors.Join(err, ws.close())
		}
		w := &worker{store: s}
		ws = append(ws, w)
		own, counts := tasksOn(tasks, d), true
		if len(own) == 0 {
			own, counts = tasksOn(tasks, tasks[0].Device), false
		}
		for _, t := range own {
			k := costs.SegmentKey(t.Variant.Graph, o.OpByOp, costs.On(all, d))
			known := !counts || seen[k] || o.knows(k)
			err := w.add(ctx, &timed{Task: t, key: k, known: known, repeats: 1}, o.OpByOp)
			if errors.Is(err, device.ErrUnsupported) {
				continue
			}
			if err != nil && counts {
				return nil, errors.Join(err, ws.close())
			}
			seen[k] = seen[k] || !known
		}
	}
	return ws, nil
}

func (ws workers) close() error {
	var errs []error
	for _, w := range ws {
		if err := w.close(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.dev.ID(), err))
		}
	}
	return errors.Join(errs...)
}

// add compiles a task.
func (w *worker) add(ctx context.Context, t *timed, opByOp bool) (err error) {
	stop := func() error { return context.Cause(ctx) }
	if opByOp {
		t.ops, err = compileOps(w.dev, t.Variant, stop)
	} else {
		t.exe, err = w.dev.Compile(t.Variant.Graph, device.CompileOptions{Alias: t.Variant.Alias, Stop: stop})
	}
	if err != nil {
		return fmt.Errorf("%s on %s: %w", t.Name, w.dev.ID(), err)
	}
	w.tasks = append(w.tasks, t)
	return nil
}

// close frees everything.
func (w *worker) close() error {
	err := w.store.close()
	for _, t := range w.tasks {
		t.release()
	}
	return err
}

// release frees what is compiled.
func (t *timed) release() {
	if t.ops != nil {
		t.ops.release()
	} else {
		t.exe.Release()
	}
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
		return t.ops.run(ctx, w.store, &t.Task, t.repeats)
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

// launched is a task with the buffers that its launches take.
type launched struct {
	exe     device.Executable
	in, out []device.Buffer
	scratch device.Buffer
}

// ready takes the buffers of a task.
func (w *worker) ready(ctx context.Context, t *timed) (*launched, error) {
	in, out, scratch, err := w.take(ctx, &t.Task, t.exe.Memory().Temporary)
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
