package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/planning"
	"github.com/berth-ml/berth/residency"
)

// Runtime makes a runtime on devs, which are the session's or have faults in addition, for the
// plan; dir is the folder of the run. On shared devices it waits until the floors of the plan
// are free. While the session is suspended, it waits for nothing, and stands still.
func (s *Session) Runtime(ctx context.Context, devs []device.Device, dir string, o residency.TenantOptions) (rt *executor.Runtime, err error) {
	defer func() {
		if err == nil && s.held.calls != nil {
			s.OnLaunch(rt)
			if s.Config.Devices.Runs(configs.OpByOpSync) {
				rt.ReadResults()
			}
		}
	}()
	err = s.held.gate.Pass(ctx, executor.Passage{
		Stand: func(opens <-chan struct{}) error { return executor.StandUntil(ctx, opens) },
		Take: func(ctx context.Context) error {
			rt, err = s.join(ctx, devs, dir, o)
			return err
		},
	})
	if err == nil {
		rt.SetGate(s.held.gate)
	}
	return rt, err
}

// join makes the runtime of Runtime.
func (s *Session) join(ctx context.Context, devs []device.Device, dir string, o residency.TenantOptions) (*executor.Runtime, error) {
	if o.Floors == nil {
		o.Floors, o.Peaks = s.MemoryOf(s.Plan, s.Groups)
	}
	o.HostBytes, o.LargestBytes = o.HostBytes+s.hostBytes(), max(o.LargestBytes, LargestOf(s.Plan.Graph))
	o.OnRead = func(i int, began, ended time.Time) {
		s.held.onSpan(device.Span{Device: devs[i].ID(), Stream: "store", What: trace.StreamIn, Start: began, End: ended})
	}
	s.beside(&o)
	if s.Shared() {
		o.Name = s.held.user.name + s.part
		return s.held.shared.devices.Join(ctx, executor.JoinOptions{Tenant: o, On: s.onShared()})
	}
	rt, err := executor.NewRuntime(s.own(devs), executor.RuntimeOptions{Manager: s.hostMemory(dir), Tenant: o, Used: s.used(), Ranks: s.ranks()})
	if err == nil {
		s.held.memory.Store(rt.Residency.Manager)
	}
	return rt, err
}

// Another makes a runtime after one that failed and is closed, to find the cause. It
// waits for no floors: its one step goes between those of others.
func (s *Session) Another(devs []device.Device, dir string) (*executor.Runtime, error) {
	ctx := context.Background()
	if s.Shared() {
		return s.held.shared.devices.Join(ctx, executor.JoinOptions{Tenant: residency.TenantOptions{Name: s.held.user.name}, On: s.onShared()})
	}
	return s.join(ctx, devs, dir, residency.TenantOptions{})
}

// onShared is, per device, its index among the shared ones; -1 if the plan does not
// use it.
func (s *Session) onShared() []int {
	on := slices.Repeat([]int{-1}, len(s.Devices))
	for _, d := range s.used() {
		on[d] = s.at[d]
	}
	return on
}

// used are the devices of this process that the plan uses; a rank that has no part in the plan has its first.
func (s *Session) used() (list []int) {
	for _, d := range s.Plan.Devices() {
		list = append(list, s.Groups.Of(d)...)
	}
	list = slices.DeleteFunc(list, func(d int) bool { return !s.Here(d) })
	for d := 0; len(list) == 0; d++ {
		if s.Here(d) {
			list = append(list, d)
		}
	}
	return list
}

// MemoryOf are the floors and peaks of a plan on groups of devices, in bytes of each
// device.
func (s *Session) MemoryOf(p *partition.Plan, on planning.Groups) (floors, peaks []int64) {
	floors, peaks = make([]int64, len(s.Devices)), make([]int64, len(s.Devices))
	for i := range p.Memory {
		f := &p.Memory[i]
		for _, d := range on.Of(f.Device) {
			floors[d], peaks[d] = f.Floor, f.Peak
		}
	}
	return floors, peaks
}

// roomFor reports whether the devices of a plan have memory for so many of its batches at
// once. A training has its state there: they must not take more than its steps do. On
// shared devices, others count on the rest of the memory.
func (s *Session) roomFor(p *partition.Plan, batches int) bool {
	for i := range p.Memory {
		f := &p.Memory[i]
		most, kept := s.Planner.Specs[f.Device].MemoryBytes, f.PeakBy[device.Weight]
		switch t := s.forecast(f.Device); {
		case s.trains && t != nil:
			most, kept = t.Peak, t.PeakBy[device.Weight]+t.PeakBy[device.OptState]
		case s.Shared():
			most = f.Peak
		}
		if takes := kept + int64(batches)*(f.Peak-f.PeakBy[device.Weight]); most > 0 && takes > most {
			return false
		}
	}
	return true
}

// forecast is the plan's of a device; nil if it has no stage there.
func (s *Session) forecast(device int) *partition.Forecast {
	for i := range s.Plan.Memory {
		if f := &s.Plan.Memory[i]; f.Device == device {
			return f
		}
	}
	return nil
}

// LeastPatience is the time that an operation of a device has at least, once the
// run is to end.
const LeastPatience = 3 * time.Second

// Watch gives devices up that hang. Once ending is closed, the devices that are the
// session's own have only so much patience: see [executor.WatchOptions].
func (s *Session) Watch(rt *executor.Runtime, ending <-chan struct{}, patience func() time.Duration) {
	if s.Shared() {
		ending = nil
	}
	o := hangs(s.Config.Devices)
	o.Stop, o.Patience = ending, patience
	rt.Watch(o)
}

// hangs says when an operation counts as hanging.
func hangs(d configs.Devices) executor.WatchOptions {
	return executor.WatchOptions{Timeout: max(0, d.Timeout), Setting: "devices.timeout"}
}

// GiveUp gives up a shared device that answers no more, and returns the bytes that rt,
// which may be nil, has there. A device one of whose operations merely failed goes on
// with the other runs.
func (s *Session) GiveUp(rt *executor.Runtime, id device.ID, err error) (written int64) {
	i := s.Index(id)
	if !s.Shared() || i < 0 || !errors.Is(err, device.ErrLost) {
		return 0
	}
	if rt != nil {
		written = rt.Memory(i).Live
	}
	s.held.shared.lose(id, executor.CauseOf(id, err))
	return written
}

// Index is that of a device by its ID; -1 if the session does not have it.
func (s *Session) Index(id device.ID) int {
	return slices.IndexFunc(s.Devices, func(d device.Device) bool { return d.ID() == id })
}
