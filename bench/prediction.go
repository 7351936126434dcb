package bench

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// seconds is the measured time of a segment on a device.
func (s *session) seconds(d int, g *graph.Graph) (float64, bool) {
	if s.times == nil {
		return 0, false
	}
	return s.times.Seconds(costs.SegmentKey(g, s.opByOp, costs.On(specs(s.devs), d)))
}

// callSeconds is the measured time of a call op by op on a device.
func (s *session) callSeconds(d int) (float64, bool) {
	if s.times == nil {
		return 0, false
	}
	return s.times.Seconds(costs.CallKey(costs.On(specs(s.devs), d)))
}

// copySeconds is the measured time of a copy from one device to another.
func (s *session) copySeconds(from, to int, bytes int64) (float64, bool) {
	if s.times == nil {
		return 0, false
	}
	return s.times.CopySeconds(costs.Between(specs(s.devs), from, to), bytes)
}

// hostSeconds is the measured time of a copy from the host to a device, or out of it.
func (s *session) hostSeconds(d int, bytes int64, out bool) (float64, bool) {
	if s.times == nil {
		return 0, false
	}
	return s.times.HostSeconds(costs.On(specs(s.devs), d), bytes, out)
}

// timeSegments adds the times of the plan's segments and copies to a file that lacks them;
// [session.predicted] is then by their times. It takes them on devices like those of the
// session, whose memory may be full.
func (s *session) timeSegments(ctx context.Context, o RunOptions, times *costs.File) (err error) {
	s.times = times
	known := func(k costs.Key) bool {
		_, ok := times.Seconds(k)
		return ok
	}
	launches, err := s.full.Launches(partition.StepOptions{Microbatches: s.parts})
	if err != nil {
		return err
	}
	devs, err := openDevices(o.Devices, o.opens())
	if err != nil {
		return err
	}
	defer func() {
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
	}()
	all, err := timing.All(ctx, devs, timing.Tasks(s.full, launches), timing.Options{OpByOp: s.opByOp, Known: known})
	if err != nil {
		return err
	}
	return times.Add(ctx, all)
}

// predicted is what the plan says of a step.
func (s *session) predicted(ctx context.Context) (*partition.Prediction, error) {
	return s.full.Predict(func() error { return context.Cause(ctx) })
}
