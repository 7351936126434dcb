package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
)

// Train trains until the config's epochs or steps, MaxSteps or early stopping, and
// returns the report. When ctx is cancelled it finishes the step, saves and
// returns errs.ErrStopped along with a report; before the first step, without one.
// An observer's panic goes on once everything is closed; nothing more is saved.
func (r *Run) Train(ctx context.Context, o Options) (rep *Report, err error) {
	leave, err := r.Session.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	a := attempts{run: r, opt: o.begun()}
	return a.train(ctx)
}

// attempts are those of one call of Train. The first is the only one,
// unless devices are lost and the config asks to go on without them.
type attempts struct {
	run     *Run
	opt     Options
	devices []device.Device // those of the run, in its order; nil before the first attempt
	all     []device.Device // with those that were lost
	losses  []DeviceLoss
}

// next makes the next attempt.
func (a *attempts) next() *attempt {
	r, o := a.run, a.opt
	return &attempt{
		run: r, session: r.Session, opt: o, devices: a.devices, losses: a.losses, rate: r.optim.Schedule, journal: journal{observer: o.Observer},
		goal: goal{steps: r.Session.Sizes.Total, maxSteps: o.MaxSteps, stopping: r.Session.Config.EarlyStopping, began: o.Began, maxTime: o.MaxTime},
	}
}

// train trains until the run ends, or there is no going on.
func (a *attempts) train(ctx context.Context) (*Report, error) {
	inTime, cancel := a.opt.InTime(ctx)
	defer cancel()
	var last *DeviceError
	for {
		s := a.next()
		rep, err := s.whole(ctx)
		if a.all == nil {
			a.all = s.devices
		}
		if err == nil || errors.Is(err, errs.ErrStopped) {
			a.missed()
		}
		if rep == nil && last != nil && errors.Is(err, errs.ErrStopped) { // before it could go on
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
func (a *attempts) replans() bool { return a.run.Session.Config.Devices.OnLoss == configs.OnLossReplan }

// missed tells of the faults that did not happen.
func (a *attempts) missed() {
	for _, text := range fault.Missed(a.all) {
		a.opt.Observer.warn(text)
	}
}

// without plans again for the devices that are left. A lost device is closed, unless
// it is shared.
func (a *attempts) without(ctx context.Context, s *attempt, lost *DeviceError) error {
	own, written := a.run.Session, s.written
	i := own.Index(lost.Device)
	if i < 0 {
		return lost
	}
	if !own.Shared() {
		if err := executor.Unrelated(own.Devices[i].Close()); err != nil {
			return errors.Join(lost, err)
		}
		written = own.Devices[i].Stats().WrittenOff
	}
	left := own.Without(i)
	a.run.Session = left
	a.devices = slices.Delete(slices.Clone(s.devices), i, i+1)
	ended := max(s.done, lost.Step-1) // a step fails alone: those before it have ended
	a.losses = append(a.losses, DeviceLoss{
		Device: lost.Device, Step: lost.Step, Resumed: lost.Saved, Again: max(0, ended-lost.Saved), Cause: executor.Happened(lost.Err),
		WrittenOff: written,
	})
	if err := a.replan(ctx, left, lost); err != nil {
		a.run.Session = own // closed, with the plan of its devices
		return errors.Join(err, left.GiveBack())
	}
	if lost.Saved > 0 {
		a.opt.Resume, a.opt.Fresh, a.opt.Init = true, false, ""
	}
	a.opt.Observer.warn(fmt.Sprintf("%v; going on without %s", lost, lost.Device))
	return nil
}

// replan plans on the devices that are left.
func (a *attempts) replan(ctx context.Context, left *session.Session, lost *DeviceError) error {
	if len(left.Devices) == 0 {
		return fmt.Errorf("%w; no device is left to go on with", lost)
	}
	err := a.run.prepare(ctx, left)
	if err == nil {
		return nil
	}
	why := "the devices that are left cannot take over"
	if ctx.Err() != nil {
		why = "stopped before the run could go on without it"
	}
	// Its cause is not wrapped: the config was right for the devices that there were.
	return fmt.Errorf("%w; %s: %v", lost, why, err)
}
