package timing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/busy"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// Book has the measured times of a model's segments, in a file that runs share. It opens the
// file once someone asks for times. Use it from one goroutine.
type Book struct {
	opt   BookOptions
	file  *costs.File // nil until it is needed
	notes []string
	took  time.Duration
}

// BookOptions says where measured times are, and who hears of measuring.
type BookOptions struct {
	Path      string                // of the file; "": that of costs.DefaultPath
	Measuring func(share float64)   // hears how far measuring is, from 0 to 1; nil for nobody
	Watch     executor.WatchOptions // of the devices while they measure
}

// NewBook makes a book that is not open.
func NewBook(o BookOptions) *Book { return &Book{opt: o} }

// Notes say what was wrong with the file of times. Each problem is there once.
func (b *Book) Notes() []string { return b.notes }

// Open reads the file of times once. One that is of no use is replaced later. Without a
// folder to keep them in, times are measured anew in each process. Notes tells of either.
func (b *Book) Open() {
	if b.file != nil {
		return
	}
	path, err := b.path()
	if err != nil {
		b.file = costs.Unkept(costs.ThisMachine())
		b.tell(fmt.Sprintf("measured times are not kept: %v", err))
		return
	}
	if b.file, err = costs.Open(path, costs.ThisMachine()); err != nil {
		b.tell(fmt.Sprintf("%v: segments are timed anew", err))
	}
}

// path is the path of the file.
func (b *Book) path() (string, error) {
	if b.opt.Path != "" {
		return b.opt.Path, nil
	}
	return costs.DefaultPath()
}

// Took is the time that measuring took, in all calls.
func (b *Book) Took() time.Duration { return b.took }

// tell notes a text once.
func (b *Book) tell(text string) {
	if !slices.Contains(b.notes, text) {
		b.notes = append(b.notes, text)
	}
}

// Seconds is the measured time of a segment on devices[d], compiled or op by op.
func (b *Book) Seconds(devices []device.Spec, d int, g *graph.Graph, opByOp bool) (float64, bool) {
	if b.file == nil {
		return 0, false
	}
	return b.file.Seconds(costs.SegmentKey(g, opByOp, costs.On(devices, d)))
}

// CallSeconds is the measured time of a call op by op on devices[d].
func (b *Book) CallSeconds(devices []device.Spec, d int) (float64, bool) {
	if b.file == nil {
		return 0, false
	}
	return b.file.Seconds(costs.CallKey(costs.On(devices, d)))
}

// CopySeconds is the measured time of a copy from one of the devices to another.
func (b *Book) CopySeconds(devices []device.Spec, from, to int, bytes int64) (float64, bool) {
	if b.file == nil {
		return 0, false
	}
	return b.file.CopySeconds(costs.Between(devices, from, to), bytes)
}

// HostSeconds is the measured time of a copy from the host to devices[d], or out of it.
func (b *Book) HostSeconds(devices []device.Spec, d int, bytes int64, out bool) (float64, bool) {
	if b.file == nil {
		return 0, false
	}
	return b.file.HostSeconds(costs.On(devices, d), bytes, out)
}

// Predict predicts a step of a plan that was made with this book: with the times that the file
// has for all of its segments, even if the config does not ask for them, or else as the plan
// was made.
func (b *Book) Predict(ctx context.Context, p *partition.Plan) (*partition.Prediction, error) {
	predicted, err := p.Predict(stop.Of(ctx))
	if err != nil || b.file != nil {
		return predicted, err
	}
	if b.file = b.Kept(); b.file == nil {
		return predicted, nil
	}
	defer func() { b.file = nil }() // plans to come are made without it
	timed, err := p.Predict(stop.Of(ctx))
	if err != nil || timed.Measured < timed.Count {
		return predicted, err
	}
	return timed, nil
}

// AddRun keeps how long a step of a finished run took, as a multiple of what the times of the file foretold. A file that
// cannot be written loses no more than this.
func (b *Book) AddRun(ctx context.Context, kind string, ratio float64) {
	f := b.file
	if f == nil {
		path, err := b.path()
		if err != nil {
			return
		}
		f = costs.Unread(path, costs.ThisMachine())
	}
	_ = f.AddRun(ctx, kind, ratio)
}

// Kept is the file, even if nobody asked for times; nil if it has none that are of use.
func (b *Book) Kept() *costs.File {
	if b.file != nil {
		return b.file
	}
	path, err := b.path()
	if err != nil {
		return nil
	}
	file, err := costs.Open(path, costs.ThisMachine())
	if err != nil || file.Len() == 0 {
		return nil
	}
	return file
}

// Measure times what steps of a plan consist of and has no time yet, compiled or op by op, and
// keeps the times. Everywhere times each segment on each device.
func (b *Book) Measure(ctx context.Context, devs []device.Device, p *partition.Plan, everywhere, opByOp bool) error {
	launches, err := p.Launches(partition.StepOptions{Microbatches: p.Microbatches})
	if err != nil {
		return err
	}
	_, err = b.measure(ctx, devs, 1, Tasks(p, launches), everywhere, opByOp)
	return err
}

// MeasureLike is Measure for a plan of ranks that each have devices like these.
func (b *Book) MeasureLike(ctx context.Context, devs []device.Device, p *partition.Plan, everywhere, opByOp bool) error {
	launches, err := p.LaunchesOnce()
	if err != nil {
		return err
	}
	for i := range launches {
		launches[i].Device %= len(devs)
	}
	_, err = b.measure(ctx, devs, 1, Tasks(p, launches), everywhere, opByOp)
	return err
}

// MeasureOwn is Measure for one of so many ranks on a machine, whose devices begin at the first of the plan's. It gives
// the times of all that these do, also those that were known.
func (b *Book) MeasureOwn(ctx context.Context, devs []device.Device, first, ranks int, p *partition.Plan, everywhere, opByOp bool) (map[costs.Key]float64, error) {
	launches, err := p.LaunchesOnce()
	if err != nil {
		return nil, err
	}
	var tasks []Task
	for _, t := range Tasks(p, launches) {
		t.Device -= first
		if everywhere || t.Device >= 0 && t.Device < len(devs) {
			tasks = append(tasks, t)
		}
	}
	return b.measure(ctx, devs, ranks, tasks, everywhere, opByOp)
}

// measure times tasks that have no time yet, and gives the times of all. So many ranks work on the machine meanwhile.
func (b *Book) measure(ctx context.Context, devs []device.Device, ranks int, tasks []Task, everywhere, opByOp bool) (map[costs.Key]float64, error) {
	if everywhere {
		tasks = onEach(tasks, len(devs))
	}
	b.Open()
	all := map[costs.Key]float64{}
	o := Options{
		OpByOp:   opByOp,
		Progress: b.opt.Measuring,
		Known: func(k costs.Key) bool {
			s, ok := b.file.Seconds(k.Beside(ranks))
			if ok {
				all[k] = s
			}
			return ok
		},
	}
	defer executor.WatchDevices(devs, b.opt.Watch)()
	begin, period := time.Now(), busy.Begin()
	times, err := All(ctx, devs, tasks, o)
	if len(times) > 0 {
		b.took += time.Since(begin)
	}
	if err != nil || len(times) == 0 {
		return all, err
	}
	kept := map[costs.Key]float64{}
	for k, s := range times {
		all[k], kept[k.Beside(ranks)] = s, s
	}
	if ranks == 1 && period.Busy() { // several ranks are busy with each other, and so are their steps
		b.file.Use(kept)
		b.tell("the machine is busy with other work: the times that were measured now are not kept")
		return all, nil
	}
	if err := b.file.Add(ctx, kept); err != nil {
		if ended := context.Cause(ctx); ended != nil {
			return nil, ended
		}
		b.tell(fmt.Sprintf("measured times are not kept: %v", err))
	}
	return all, nil
}

// onEach are the tasks on each of so many devices.
func onEach(tasks []Task, devices int) (list []Task) {
	for d := range devices {
		for _, t := range tasks {
			t.Device = d
			list = append(list, t)
		}
	}
	return list
}
