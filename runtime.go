package berth

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
	"github.com/berth-ml/berth/residency"
)

// enter keeps the devices open until leave is called. On shared devices, a run has
// one call at a time: a second one could wait for memory of the first for ever.
func (s *setup) enter() (leave func(), err error) {
	calls, leave := s.user.enter()
	if s.kept.Load() || calls > 1 {
		leave()
		return nil, ErrInUse
	}
	return leave, nil
}

// keep is enter for a Training or a Service, which has the devices until leave.
func (s *setup) keep() (leave func(), err error) {
	calls, end := s.user.enter()
	if calls > 1 || !s.kept.CompareAndSwap(false, true) {
		end()
		return nil, ErrInUse
	}
	return func() {
		s.kept.Store(false)
		end()
	}, nil
}

// runtime makes a runtime on the run's devices, for the plan; dir is the run's
// folder. On shared devices it waits until the floors of the plan are free.
func (s *setup) runtime(ctx context.Context, devs []device.Device, dir string, o residency.TenantOptions) (rt *executor.Runtime, err error) {
	defer func() {
		if err == nil && s.calls != nil {
			rt.OnLaunch(s.onLaunch)
		}
	}()
	if o.Floors == nil {
		o.Floors, o.Peaks = s.memoryOf(s.plan, s.groups)
	}
	o.HostBytes, o.LargestBytes = o.HostBytes+s.hostBytes(), max(o.LargestBytes, largestOf(s.plan.Graph))
	o.OnRead = func(i int, began, ended time.Time) {
		s.onSpan(device.Span{Device: devs[i].ID(), Stream: "store", What: trace.StreamIn, Start: began, End: ended})
	}
	if s.shared != nil {
		o.Name = s.user.name
		return s.shared.devices.Join(ctx, executor.JoinOptions{Tenant: o, On: s.onShared()})
	}
	return executor.NewRuntime(devs, executor.RuntimeOptions{Manager: s.hostMemory(dir), Tenant: o, Used: s.used()})
}

// onShared is, per device, its index among the shared ones; -1 if the plan does not
// use it.
func (s *setup) onShared() []int {
	on := slices.Repeat([]int{-1}, len(s.devs))
	for _, d := range s.used() {
		on[d] = s.at[d]
	}
	return on
}

// used are the devices that the plan uses.
func (s *setup) used() (list []int) {
	for _, d := range s.plan.Devices() {
		list = append(list, s.groups.of(d)...)
	}
	return list
}

// memoryOf are the floors and peaks of a plan on groups of devices, in bytes of each
// device.
func (s *setup) memoryOf(p *partition.Plan, on groups) (floors, peaks []int64) {
	floors, peaks = make([]int64, len(s.devs)), make([]int64, len(s.devs))
	for i := range p.Memory {
		f := &p.Memory[i]
		for _, d := range on.of(f.Device) {
			floors[d], peaks[d] = f.Floor, f.Peak
		}
	}
	return floors, peaks
}

// leastPatience is the time that an operation of a device has at least, once the
// run is to end.
const leastPatience = 3 * time.Second

// watch gives devices up that hang. Once ending is closed, the devices that are the
// run's own have only so much patience: see [executor.WatchOptions].
func (s *setup) watch(rt *executor.Runtime, ending <-chan struct{}, patience func() time.Duration) {
	if s.shared != nil {
		ending = nil
	}
	o := hangs(s.config.Devices)
	o.Stop, o.Patience = ending, patience
	rt.Watch(o)
}

// hangs says when an operation counts as hanging.
func hangs(d configs.Devices) executor.WatchOptions {
	return executor.WatchOptions{Timeout: max(0, d.Timeout), Setting: "devices.timeout"}
}

// giveUp gives up a shared device that answers no more, and returns the bytes that rt,
// which may be nil, has there. A device one of whose operations merely failed goes on
// with the other runs.
func (s *setup) giveUp(rt *executor.Runtime, id device.ID, err error) (written int64) {
	i := slices.IndexFunc(s.devs, func(d device.Device) bool { return d.ID() == id })
	if s.shared == nil || i < 0 || !errors.Is(err, device.ErrLost) {
		return 0
	}
	if rt != nil {
		written = rt.Memory(i).Live
	}
	s.shared.lose(id, executor.CauseOf(id, err))
	return written
}
