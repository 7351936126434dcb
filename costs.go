package berth

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// timesOptions says where measured times are, and who hears of measuring.
type timesOptions struct {
	path      string              // "": that of costs.DefaultPath
	measuring func(share float64) // nil for nobody
}

// measured has the times of segments on a run's devices.
type measured struct {
	opt   timesOptions
	watch executor.WatchOptions // of the devices while they measure
	file  *costs.File           // nil until it is needed
	notes []string
}

// open reads the file of times once. One that is of no use is replaced later. Without a
// folder to keep them in, times are measured anew in each process. The user hears of
// either once.
func (m *measured) open() {
	if m.file != nil {
		return
	}
	path := m.opt.path
	if path == "" {
		var err error
		if path, err = costs.DefaultPath(); err != nil {
			m.file = costs.Unkept(costs.ThisMachine())
			m.tell(fmt.Sprintf("measured times are not kept: %v", err))
			return
		}
	}
	var err error
	if m.file, err = costs.Open(path, costs.ThisMachine()); err != nil {
		m.tell(fmt.Sprintf("%v: segments are timed anew", err))
	}
}

// tell notes a text once.
func (m *measured) tell(text string) {
	if !slices.Contains(m.notes, text) {
		m.notes = append(m.notes, text)
	}
}

// seconds is the measured time of a segment on devices[d], compiled or op by op.
func (m *measured) seconds(devices []device.Spec, d int, g *graph.Graph, opByOp bool) (float64, bool) {
	if m.file == nil {
		return 0, false
	}
	return m.file.Seconds(costs.SegmentKey(g, opByOp, costs.On(devices, d)))
}

// callSeconds is the measured time of a call op by op on devices[d].
func (m *measured) callSeconds(devices []device.Spec, d int) (float64, bool) {
	if m.file == nil {
		return 0, false
	}
	return m.file.Seconds(costs.CallKey(costs.On(devices, d)))
}

// copySeconds is the measured time of a copy from one of the devices to another.
func (m *measured) copySeconds(devices []device.Spec, from, to int, bytes int64) (float64, bool) {
	if m.file == nil {
		return 0, false
	}
	return m.file.CopySeconds(costs.Between(devices, from, to), bytes)
}

// hostSeconds is the measured time of a copy from the host to devices[d], or out of it.
func (m *measured) hostSeconds(devices []device.Spec, d int, bytes int64, out bool) (float64, bool) {
	if m.file == nil {
		return 0, false
	}
	return m.file.HostSeconds(costs.On(devices, d), bytes, out)
}

// predict predicts a step of a plan: with the times that the file has for all of its
// segments, even if the config does not ask for them, or else as the plan was made.
func (m *measured) predict(ctx context.Context, p *partition.Plan) (*partition.Prediction, error) {
	stopped := func() error { return context.Cause(ctx) }
	predicted, err := p.Predict(stopped)
	if err != nil || m.file != nil {
		return predicted, err
	}
	if m.file = m.kept(); m.file == nil {
		return predicted, nil
	}
	defer func() { m.file = nil }() // plans to come are made without it
	timed, err := p.Predict(stopped)
	if err != nil || timed.Measured < len(timed.Launches) {
		return predicted, err
	}
	return timed, nil
}

// kept is the file, even if nobody asked for times; nil if it has none that are of use.
func (m *measured) kept() *costs.File {
	if m.file != nil {
		return m.file
	}
	path := m.opt.path
	if path == "" {
		var err error
		if path, err = costs.DefaultPath(); err != nil {
			return nil
		}
	}
	file, err := costs.Open(path, costs.ThisMachine())
	if err != nil || file.Len() == 0 {
		return nil
	}
	return file
}

// add times tasks that have no time yet, compiled or op by op, and keeps their times.
func (m *measured) add(ctx context.Context, devs []device.Device, tasks []timing.Task, opByOp bool) error {
	m.open()
	o := timing.Options{
		OpByOp:   opByOp,
		Progress: m.opt.measuring,
		Known: func(k costs.Key) bool {
			_, ok := m.file.Seconds(k)
			return ok
		},
	}
	defer executor.WatchDevices(devs, m.watch)()
	times, err := timing.All(ctx, devs, tasks, o)
	if err != nil || len(times) == 0 {
		return err
	}
	if err := m.file.Add(ctx, times); err != nil {
		if ended := context.Cause(ctx); ended != nil {
			return ended
		}
		m.tell(fmt.Sprintf("measured times are not kept: %v", err))
	}
	return nil
}
