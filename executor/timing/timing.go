package timing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// Task is a segment to time on devices[Device].
type Task struct {
	Name    string // for errors: "s0.F"
	Variant *partition.Variant
	In, Out []Tensor // of the variant's inputs and outputs
	Usage   func(v *graph.Value) device.Usage
	Device  int
}

// Tensor tells tensors apart that a task uses at once. Those of other microbatches are
// not told apart: one stands for all.
type Tensor struct {
	Value *graph.Value
	Copy  int // 1 for the second tensor of a value, such as a second partial sum
}

// Options changes what is measured and how long, and who hears of it.
type Options struct {
	OpByOp   bool                   // segments run op by op
	Least    time.Duration          // of measuring segments, on each device; 0 means 300 ms
	Known    func(k costs.Key) bool // times that are not needed; nil means none
	Progress func(share float64)    // hears how far it is, from 0 to 1; nil for nobody
}

// knows reports whether a time is not needed.
func (o *Options) knows(k costs.Key) bool { return o.Known != nil && o.Known(k) }

// All times what a prediction takes that runs these tasks: [Segments], [Copies] between
// the devices, [HostCopies], and op by op [Calls].
func All(ctx context.Context, devs []device.Device, tasks []Task, o Options) (map[costs.Key]float64, error) {
	times, err := Segments(ctx, devs, tasks, o)
	if err != nil {
		return nil, err
	}
	copies, err := Copies(ctx, devs, tasks, o)
	if err != nil {
		return nil, err
	}
	hosts, err := HostCopies(ctx, devs, o)
	if err != nil {
		return nil, err
	}
	maps.Copy(times, copies)
	maps.Copy(times, hosts)
	if o.OpByOp {
		calls, err := Calls(ctx, devs, o)
		if err != nil {
			return nil, err
		}
		maps.Copy(times, calls)
	}
	return times, nil
}

// The rounds over a device's tasks that are timed, beside a first one that is not.
// Where one round takes long, few have to do.
const (
	leastRounds  = 3
	usualRounds  = 7
	defaultLeast = 300 * time.Millisecond
)

// Segments times tasks: each is the median of several runs. A device that is done
// goes on working until all are. Tasks of equal work on equal devices are timed
// once. One that does not fit in its device's memory, or that the device does not run,
// gets no time.
func Segments(ctx context.Context, devs []device.Device, tasks []Task, o Options) (_ map[costs.Key]float64, err error) {
	if o.Least == 0 {
		o.Least = defaultLeast
	}
	m := &measurement{o: o, times: map[costs.Key][]float64{}}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(ctx, devs, tasks); err != nil {
		return nil, err
	}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	return m.medians(), nil
}

// measurement is one call of Segments.
type measurement struct {
	o       Options
	workers []*worker
	busy    atomic.Int64 // workers that have not measured enough
	mu      sync.Mutex
	times   map[costs.Key][]float64
	share   map[*worker]float64 // of its work that each has done
}

// open compiles the tasks. A device without tasks works on those of the first one
// that has some, and its times do not count.
func (m *measurement) open(ctx context.Context, devs []device.Device, tasks []Task) error {
	if len(tasks) == 0 {
		return nil
	}
	all := specs(devs)
	seen := map[costs.Key]bool{}
	for d, dev := range devs {
		w := &worker{m: m, dev: dev, buffers: map[Tensor]device.Buffer{}}
		m.workers = append(m.workers, w)
		if err := w.open(); err != nil {
			return err
		}
		own, counts := tasksOn(tasks, d), true
		if len(own) == 0 {
			own, counts = tasksOn(tasks, tasks[0].Device), false
		}
		for _, t := range own {
			k := costs.SegmentKey(t.Variant.Graph, m.o.OpByOp, costs.On(all, d))
			known := !counts || seen[k] || m.o.knows(k)
			err := w.add(ctx, t, k, known)
			if errors.Is(err, device.ErrUnsupported) {
				continue
			}
			if err != nil && counts {
				return err
			}
			seen[k] = seen[k] || !known
		}
	}
	return nil
}

// tasksOn are the tasks of a device.
func tasksOn(tasks []Task, d int) (own []Task) {
	for _, t := range tasks {
		if t.Device == d {
			own = append(own, t)
		}
	}
	return own
}

// run has all workers work until each has measured enough.
func (m *measurement) run(ctx context.Context) error {
	m.share = map[*worker]float64{}
	for _, w := range m.workers {
		if w.needed() {
			m.busy.Add(1)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, w := range m.workers {
		all.Go(func() {
			if err := w.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
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

func (m *measurement) medians() map[costs.Key]float64 {
	out := map[costs.Key]float64{}
	for k, list := range m.times {
		slices.Sort(list)
		out[k] = list[len(list)/2]
	}
	return out
}

func (m *measurement) close() error {
	var errs []error
	for _, w := range m.workers {
		if err := w.close(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.dev.ID(), err))
		}
	}
	return errors.Join(errs...)
}

// Tasks are the segments of a step's launches, once for each device.
func Tasks(p *partition.Plan, launches []partition.Launch) []Task {
	type key struct {
		variant *partition.Variant
		device  int
	}
	seen := map[key]bool{}
	var list []Task
	for i := range launches {
		l := &launches[i]
		k := key{l.Variant, l.Device}
		if !seen[k] {
			seen[k] = true
			list = append(list, taskOf(p, l))
		}
	}
	return list
}

// taskOf is the task of a launch.
func taskOf(p *partition.Plan, l *partition.Launch) Task {
	needs, met := make([]Tensor, len(l.Needs)), map[*graph.Value]int{}
	for i, n := range l.Needs {
		needs[i] = Tensor{n.Value, met[n.Value]}
		met[n.Value]++
	}
	t := Task{Name: l.Name(), Variant: l.Variant, Usage: p.Usage, Device: l.Device}
	for _, i := range l.In {
		t.In = append(t.In, needs[i])
	}
	for _, i := range l.Out {
		t.Out = append(t.Out, needs[i])
	}
	return t
}

// specs describes devices.
func specs(devs []device.Device) []device.Spec {
	all := make([]device.Spec, len(devs))
	for i, d := range devs {
		all[i] = d.Spec()
	}
	return all
}
