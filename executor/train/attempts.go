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
	leave, err := r.now.session.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	defer r.tracing.begin()()
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
		run: r, session: r.now.session, opt: o, opened: opened{devices: a.devices}, losses: a.losses, rate: r.optim.Schedule, journal: journal{observer: o.Observer},
		goal: goal{steps: r.now.session.Sizes.Total, maxSteps: o.MaxSteps, stopping: r.now.session.Config.EarlyStopping, began: o.Began, maxTime: o.MaxTime},
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
func (a *attempts) replans() bool {
	return a.run.now.session.Config.Devices.OnLoss == configs.OnLossReplan
}

// missed tells of the faults that did not happen.
func (a *attempts) missed() {
	for _, text := range fault.Missed(a.all) {
		a.opt.Observer.warn(text)
	}
}

// without plans again for the devices that are left. A lost device is closed, unless
// it is shared.
func (a *attempts) without(ctx context.Context, s *attempt, lost *DeviceError) error {
	own, written := a.run.now.session, s.written
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
	a.devices = slices.Delete(slices.Clone(s.devices), i, i+1)
	ended := max(s.done, lost.Step-1) // a step fails alone: those before it have ended
	a.losses = append(a.losses, DeviceLoss{
		Device: lost.Device, Step: lost.Step, Resumed: lost.Saved, Again: max(0, ended-lost.Saved), Cause: executor.Happened(lost.Err),
		WrittenOff: written,
	})
	left, err := a.replan(ctx, own, i, lost)
	if err != nil {
		return errors.Join(err, own.GiveBackBut(i))
	}
	a.run.now = left
	if lost.Saved > 0 {
		a.opt.Resume, a.opt.Fresh, a.opt.Init = true, false, ""
	}
	a.opt.Observer.warn(fmt.Sprintf("%v; going on without %s", lost, lost.Device))
	return nil
}

// replan plans without the device of own at i.
func (a *attempts) replan(ctx context.Context, own *session.Session, i int, lost *DeviceError) (now planned, err error) {
	if len(own.Devices) == 1 {
		return now, fmt.Errorf("%w; no device is left to go on with", lost)
	}
	_, err = own.Without(i, func(left *session.Session) (err error) {
		now, err = a.run.prepare(ctx, left)
		return err
	})
	if err == nil {
		return now, nil
	}
	why := "the devices that are left cannot take over"
	if ctx.Err() != nil {
		why = "stopped before the run could go on without it"
	}
	// Its cause is not wrapped: the config was right for the devices that there were.
	return now, fmt.Errorf("%w; %s: %v", lost, why, err)
}
