package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor/boundary"
)

// Check fails where Run would fail before it measures these workloads: on wrong
// options, on devices that cannot be opened, and on faults of devices that are not there.
func (o RunOptions) Check(ws ...Workload) error {
	o, err := o.checked()
	if err != nil {
		return err
	}
	for _, w := range ws {
		if err := w.checkMicrobatches(o.Microbatches); err != nil {
			return err
		}
	}
	_, err = o.look()
	return err
}

// Run measures a workload: it warms up, then runs o.Steps steps, or steps for
// at least o.Seconds. With o.Ranks, all ranks call it, and rank 0 has the result of
// all; the others have their own part of it.
// It measures the devices' peak twice, before and after, and takes the better
// figure, so that a busy moment of the machine does not count. This takes less
// than two seconds in all. Memory and allocations are those of the process, so
// nothing else should run in it meanwhile. When ctx is done, Run stops and
// returns ctx's error.
func Run(ctx context.Context, w Workload, o RunOptions) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, err
	}
	before, err := o.measurePeakOfAll(ctx)
	if err != nil {
		return Result{}, err
	}
	res, err := train(ctx, w, o)
	if err != nil {
		return Result{}, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	after, err := o.measurePeakOfAll(ctx)
	if err != nil {
		return Result{}, err
	}
	if before.gflops > after.gflops {
		after = before
	}
	res.PeakGflops, res.PeakSide = after.gflops, after.side
	if res, err = res.merge(ctx, o.Ranks, w.Tokens); err != nil {
		return Result{}, err
	}
	res.PeakFraction = res.Gflops / res.PeakGflops
	return res, nil
}

// train measures all of the result but the peak.
func train(ctx context.Context, w Workload, o RunOptions) (res Result, err error) {
	debug.FreeOSMemory() // of an earlier workload
	resetPeakResident()
	s, err := open(ctx, w, o)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	returned := false
	defer func() { s.ranks.quit(returned, err) }()
	res, err = s.result(ctx, o)
	returned = true
	return res, err
}

// result takes the steps, and measures.
func (s *training) result(ctx context.Context, o RunOptions) (res Result, err error) {
	m, err := measure(ctx, s, o)
	if err != nil {
		return res, err
	}
	res = newResult(s, m)
	res.Precision, res.Missed = o.Precision, fault.Missed(s.faulty)
	res.Reduction, res.Shard = o.Reduction, o.Shard
	if res.Loss, err = s.loss(ctx); err != nil {
		return res, err
	}
	if res.WeightsSHA256, err = boundary.WeightsHash(ctx, s.prog, o.Ranks); err == nil && o.Ranks != nil {
		err = s.predict(ctx, o, res.Ranks)
	}
	for _, failure := range s.rt.Retried() {
		res.Retried = append(res.Retried, failure.Error()+"; trying again")
	}
	return res, err
}
