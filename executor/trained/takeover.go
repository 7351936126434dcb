package trained

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/partition/planning"
	"github.com/berth-ml/berth/residency"
)

// Warnings say what went wrong and did no harm: copies that failed on a device and were
// repeated, devices that were lost, files of other data that are left out, answers that are not finite, and, after a
// call that ended well, faults that did not happen. Each is returned once.
func (t *Model) Warnings() []string {
	list := t.warnings
	t.warnings = nil
	if t.ended {
		list = append(list, fault.Missed(t.faulty)...)
		t.faulty = nil
	}
	return list
}

// on runs f on a runtime of its own. After the loss of a device, f is called again
// where other groups of devices have the model.
func (t *Model) on(ctx context.Context, f func(*executor.Runtime) error) error {
	return t.onWith(ctx, residency.TenantOptions{}, f)
}

// onWith is on with the memory that f needs, if that is another than the plan's.
func (t *Model) onWith(ctx context.Context, o residency.TenantOptions, f func(*executor.Runtime) error) error {
	leave, err := t.session.Enter()
	if err != nil {
		return err
	}
	defer leave()
	for t.losses = nil; ; {
		err := t.onceWith(ctx, o, f)
		t.ended = err == nil
		if err == nil || ctx.Err() != nil || !t.without(ctx, err) {
			return err
		}
		o = residency.TenantOptions{} // the plan is another
	}
}

// onceWith runs f on a runtime of its own, with the memory that f needs, if that is
// another than the plan's.
func (t *Model) onceWith(ctx context.Context, o residency.TenantOptions, f func(*executor.Runtime) error) (err error) {
	o.Turns = true
	rt, err := t.runtime(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if id, lost := executor.LostDevice(err); lost {
			t.session.GiveUp(rt, id, err)
		}
		err = errors.Join(err, rt.Close())
	}()
	t.session.Watch(rt, ctx.Done(), func() time.Duration { return session.LeastPatience })
	rt.EndWith(ctx)
	err = t.session.Placed(f(rt)) // it plans what it computes within the limits of memory
	if text := executor.RefusedText(rt.Refused()); text != "" {
		t.warnings = append(t.warnings, text)
	}
	for _, failure := range rt.Retried() {
		t.warnings = append(t.warnings, executor.TryingAgain(failure))
	}
	return err
}

// without plans for the devices that are left after a failure, if that is the loss of a
// device of one group among others.
func (t *Model) without(ctx context.Context, failure error) bool {
	s := t.session
	id, lost := executor.LostDevice(failure)
	i := s.Index(id)
	if t.ofRun || !lost || i < 0 || s.Groups.Count < 2 || executor.Unrelated(failure) != nil {
		return false
	}
	left, err := s.Without(i, func(left *session.Session) error {
		err := t.planned(ctx, left)
		if left.Groups.Count == 0 { // one group, which goes on with the sums of whole batches
			left.Groups = planning.Groups{Count: 1, Size: len(left.Devices)}
		}
		return err
	})
	if err == nil && !s.Shared() {
		err = executor.Unrelated(s.Devices[i].Close())
	}
	if err != nil {
		return false
	}
	before := s.Planner.PinsGaveWay()
	t.session = left
	t.losses = append(t.losses, answer.LostDevice{Device: id, Cause: executor.Happened(failure)})
	t.warnings = append(t.warnings, fmt.Sprintf("%s; going on without %s", executor.Happened(failure), id))
	for _, text := range left.Planner.PinsGaveWay() {
		if !slices.Contains(before, text) {
			t.warnings = append(t.warnings, text)
		}
	}
	return true
}
