package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor"
)

// Train trains until the config's epochs or steps, MaxSteps or early stopping, and
// returns the report. When ctx is cancelled it finishes the step, saves and
// returns ErrStopped along with a report; before the first step, without one.
// An observer's panic goes on once everything is closed; nothing more is saved.
func (r *Run) Train(ctx context.Context, o TrainOptions) (rep *Report, err error) {
	leave, err := r.setup.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if o.Began.IsZero() {
		o.Began = time.Now()
	}
	o.Dir, o.Dump = osfile.Resolve(o.Dir), osfile.Resolve(o.Dump)
	a := attempts{run: r, opt: o}
	return a.train(ctx)
}

// newSession makes the session of an attempt.
func newSession(a *attempts) *session {
	r, o := a.run, a.opt
	return &session{setup: r.setup, opt: o, devices: a.devices, losses: a.losses, rate: r.optim.Schedule, journal: journal{observer: o.Observer}, goal: goal{
		steps: r.setup.sizes.total, maxSteps: o.MaxSteps, stopping: r.Config.EarlyStopping, began: o.Began, maxTime: o.MaxTime,
	}}
}

// attempts are the sessions of one call of Train. The first is the only one,
// unless devices are lost and the config asks to go on without them.
type attempts struct {
	run     *Run
	opt     TrainOptions
	devices []device.Device // those of the run, in its order; nil before the first session
	all     []device.Device // with those that were lost
	losses  []DeviceLoss
}

// train trains until the run ends, or there is no going on.
func (a *attempts) train(ctx context.Context) (*Report, error) {
	inTime, cancel := a.opt.InTime(ctx)
	defer cancel()
	var last *DeviceError
	for {
		s := newSession(a)
		rep, err := s.whole(ctx, a.run)
		if a.all == nil {
			a.all = s.devices
		}
		if err == nil || errors.Is(err, ErrStopped) {
			a.missed()
		}
		if rep == nil && last != nil && errors.Is(err, ErrStopped) { // before it could go on
			return nil, fmt.Errorf("%w; %v", last, err)
		}
		var lost *DeviceError
		if !errors.As(err, &lost) || !a.replans() || inTime.Err() != nil {
			return rep, err
		}
		if err := a.without(ctx, s, lost); err != nil {
			return nil, err
		}
		last = lost
	}
}

// replans reports whether the run goes on without a lost device.
func (a *attempts) replans() bool { return a.run.Config.Devices.OnLoss == configs.OnLossReplan }

// missed tells of the faults that did not happen.
func (a *attempts) missed() {
	for _, text := range fault.Missed(a.all) {
		a.opt.Observer.warn(text)
	}
}

// without plans again for the devices that are left. A lost device is closed, unless
// it is shared.
func (a *attempts) without(ctx context.Context, s *session, lost *DeviceError) error {
	devs, written := a.run.setup.devs, s.written
	i := slices.IndexFunc(devs, func(d device.Device) bool { return d.ID() == lost.Device })
	if i < 0 {
		return lost
	}
	if a.run.setup.shared == nil {
		if err := executor.Unrelated(devs[i].Close()); err != nil {
			return errors.Join(lost, err)
		}
		written = devs[i].Stats().WrittenOff
	}
	a.run.setup.without(i)
	a.devices = slices.Delete(slices.Clone(s.devices), i, i+1)
	ended := max(s.done, lost.Step-1) // a step fails alone: those before it have ended
	a.losses = append(a.losses, DeviceLoss{
		Device: lost.Device, Step: lost.Step, Resumed: lost.Saved, Again: max(0, ended-lost.Saved), Cause: executor.Happened(lost.Err),
		WrittenOff: written,
	})
	if len(a.devices) == 0 {
		return fmt.Errorf("%w; no device is left to go on with", lost)
	}
	if err := a.run.prepare(ctx); err != nil {
		why := "the devices that are left cannot take over"
		if ctx.Err() != nil {
			why = "stopped before the run could go on without it"
		}
		// Its cause is not wrapped: the config was right for the devices that there were.
		return errors.Join(fmt.Errorf("%w; %s: %v", lost, why, err), a.run.setup.closeDevices())
	}
	if lost.Saved > 0 {
		a.opt.Resume, a.opt.Fresh, a.opt.Init = true, false, ""
	}
	a.opt.Observer.warn(fmt.Sprintf("%v; going on without %s", lost, lost.Device))
	return nil
}
