package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/residency"
)

// Warnings say what went wrong and did no harm: copies that failed on a device and were
// repeated, devices that were lost, files of other data that are left out, answers that are not finite, and, after a
// call that ended well, faults that did not happen. Each is returned once.
func (t *Trained) Warnings() []string {
	list := t.warnings
	t.warnings = nil
	if t.ended {
		list = append(list, fault.Missed(t.faulty)...)
		t.faulty = nil
	}
	return list
}

// on runs f on a runtime of its own. After the loss of a device, f goes on from done
// where other groups of devices have the model.
func (t *Trained) on(ctx context.Context, done *infer.Progress, f func(*executor.Runtime) error) error {
	return t.onWith(ctx, residency.TenantOptions{}, done, f)
}

// onWith is on with the memory that f needs, if that is another than the plan's.
func (t *Trained) onWith(ctx context.Context, o residency.TenantOptions, done *infer.Progress, f func(*executor.Runtime) error) error {
	leave, err := t.setup.enter()
	if err != nil {
		return err
	}
	defer leave()
	for t.losses = nil; ; {
		err := t.onceWith(ctx, o, f)
		t.ended = err == nil
		if err == nil || ctx.Err() != nil || !t.without(ctx, err, done.Samples) {
			return err
		}
		o = residency.TenantOptions{} // the plan is another
	}
}

// onceWith runs f on a runtime of its own, with the memory that f needs, if that is
// another than the plan's.
func (t *Trained) onceWith(ctx context.Context, o residency.TenantOptions, f func(*executor.Runtime) error) (err error) {
	rt, err := t.setup.runtime(ctx, t.setup.devs, t.weights.Dir, o)
	if err != nil {
		return err
	}
	defer func() {
		if id, lost := executor.LostDevice(err); lost {
			t.setup.giveUp(rt, id, err)
		}
		err = errors.Join(err, rt.Close())
	}()
	t.setup.watch(rt, ctx.Done(), func() time.Duration { return leastPatience })
	rt.EndWith(ctx)
	err = f(rt)
	if text := executor.RefusedText(rt.Refused()); text != "" {
		t.warnings = append(t.warnings, text)
	}
	for _, failure := range rt.Retried() {
		t.warnings = append(t.warnings, executor.TryingAgain(failure))
	}
	return err
}

// without plans for the devices that are left after a failure, if that is the loss of a
// device of one group among others. Samples were done before.
func (t *Trained) without(ctx context.Context, failure error, samples int) bool {
	s := t.setup
	id, lost := executor.LostDevice(failure)
	i := slices.IndexFunc(s.devs, func(d device.Device) bool { return d.ID() == id })
	if t.ofRun || !lost || i < 0 || s.groups.count < 2 || executor.Unrelated(failure) != nil {
		return false
	}
	devs, at, plan, before := s.devs, s.at, s.plan, s.groups
	s.without(i)
	err := t.planned(ctx)
	if err == nil && s.shared == nil {
		err = executor.Unrelated(devs[i].Close())
	}
	if err != nil {
		s.devs, s.at, s.plan, s.groups = devs, at, plan, before
		return false
	}
	if s.groups.count == 0 { // one group, which goes on with the sums of whole batches
		s.groups = groups{count: 1, size: len(s.devs)}
	}
	t.losses = append(t.losses, LostDevice{Device: id, Samples: samples, Cause: executor.Happened(failure)})
	t.warnings = append(t.warnings, fmt.Sprintf("%s; going on without %s", executor.Happened(failure), id))
	return true
}
