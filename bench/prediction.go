package bench

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
)

// timed predicts a step of the plan by the times of its segments and copies, which it measures
// where RunOptions.costs has none. It measures on devices like those of the session, whose memory
// may be full.
func (s *training) timed(ctx context.Context, o RunOptions) (p *partition.Prediction, err error) {
	if err := s.time(ctx, o); err != nil {
		return nil, err
	}
	return s.on.Plan.Predict(stop.Of(ctx))
}

// time measures the times of timed. Ranks all call it.
func (s *training) time(ctx context.Context, o RunOptions) (err error) {
	devs, err := openDevices(o.Devices, o.opens())
	if err != nil {
		return err
	}
	defer func() {
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
	}()
	return s.on.Planner.Times.Measure(ctx, devs, s.on.Plan, false, o.OpByOp)
}
