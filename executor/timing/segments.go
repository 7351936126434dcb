package timing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/costs"
)

// The rounds over a device's tasks that are timed, after a first one that is not. They end once there are
// usualRounds of them and Options.Least has passed; before, where they take long: after fewRounds once longRounds times that
// has passed, and in any case once longest times that has.
const (
	usualRounds  = 7
	fewRounds    = 3
	longRounds   = 5
	longest      = 40
	defaultLeast = 50 * time.Millisecond
)

// Segments times tasks: each is the median of several runs, or the least of a few. A device that is done
// goes on working until all are. Tasks of equal work on equal devices are timed
// once. One that does not fit in its device's memory, or that the device does not run,
// gets no time.
func Segments(ctx context.Context, devs []device.Device, tasks []Task, o Options) (_ map[costs.Key]float64, err error) {
	if o.Least == 0 {
		o.Least = defaultLeast
	}
	ws, err := openWorkers(ctx, devs, tasks, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ws.close()) }()
	m := &measurement{o: o, workers: ws, times: map[costs.Key][]float64{}, share: map[*worker]float64{}}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	return m.results(), nil
}

// measurement is one call of Segments.
type measurement struct {
	o       Options
	workers workers
	busy    atomic.Int64 // workers that have not measured enough
	mu      sync.Mutex
	times   map[costs.Key][]float64
	share   map[*worker]float64 // of its work that each has done
}

// run measures with all devices busy; with one after the other where the host has too few cores for all: a plan's devices then
// get them in turns, as its simulation says.
func (m *measurement) run(ctx context.Context) error {
	if !crowded(m.workers) {
		return m.together(ctx, m.workers)
	}
	for i, w := range m.workers {
		if !w.needed() {
			continue
		}
		if err := m.together(ctx, m.workers[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// crowded reports whether devices want more cores than their host has.
func crowded(ws workers) bool {
	want, has := 0, 0
	for _, w := range ws {
		spec := w.dev.Spec()
		want, has = want+spec.Cores, max(has, spec.OfCores)
	}
	return want > has
}

// together has workers work until each has measured enough.
func (m *measurement) together(ctx context.Context, ws workers) error {
	for _, w := range ws {
		if w.needed() {
			m.busy.Add(1)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, w := range ws {
		all.Go(func() {
			if err := m.work(ctx, w); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// work has a worker go round its tasks until all workers have measured enough. The first
// round fills the tensors and is not timed.
func (m *measurement) work(ctx context.Context, w *worker) error {
	if len(w.tasks) == 0 {
		return nil
	}
	needed := w.needed()
	var begin time.Time
	for round := 0; needed || m.busy.Load() > 0; round++ {
		if round == 1 {
			begin = time.Now()
		}
		if err := m.round(ctx, w, round); err != nil {
			return err
		}
		if !slices.ContainsFunc(w.tasks, func(t *timed) bool { return !t.large }) {
			if needed {
				m.busy.Add(-1)
			}
			return nil
		}
		if !needed || round == 0 {
			continue
		}
		took := time.Since(begin)
		m.tell(w, min(float64(took)/float64(m.o.Least), float64(round)/usualRounds))
		if took > longest*m.o.Least || round >= fewRounds && took > longRounds*m.o.Least || round >= usualRounds && took >= m.o.Least {
			needed = false
			m.busy.Add(-1)
			m.tell(w, 1)
		}
	}
	return nil
}

// round runs each task of a worker that fits in the device's memory.
func (m *measurement) round(ctx context.Context, w *worker, round int) error {
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
		m.mu.Lock()
		m.times[t.key] = append(m.times[t.key], seconds)
		m.mu.Unlock()
	}
	return nil
}

// tell reports how far a worker is.
func (m *measurement) tell(w *worker, share float64) {
	if m.o.Progress == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.share[w] = min(1, share)
	sum, count := 0.0, 0
	for _, w := range m.workers {
		if w.needed() {
			sum, count = sum+m.share[w], count+1
		}
	}
	m.o.Progress(sum / float64(max(1, count)))
}

// results are the times: of few rounds the least, since the median of two or three may be one that other work made longer.
func (m *measurement) results() map[costs.Key]float64 {
	out := map[costs.Key]float64{}
	for k, list := range m.times {
		if len(list) < usualRounds {
			out[k] = slices.Min(list)
		} else {
			out[k] = median(list)
		}
	}
	return out
}
