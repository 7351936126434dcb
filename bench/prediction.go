package bench

import (
	"context"
	"maps"

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
	return s.times.Seconds(costs.Key{Work: graph.Signature(g), On: costs.On(specs(s.devs), d)})
}

// copySeconds is the measured time of a copy from one device to another.
func (s *session) copySeconds(from, to int, bytes int64) (float64, bool) {
	if s.times == nil {
		return 0, false
	}
	return s.times.CopySeconds(costs.Between(specs(s.devs), from, to), bytes)
}

// timeSegments adds the times of the plan's segments and copies to a file that lacks them;
// [session.predicted] is then by their times.
func (s *session) timeSegments(ctx context.Context, times *costs.File) error {
	s.times = times
	known := func(k costs.Key) bool {
		_, ok := times.Seconds(k)
		return ok
	}
	launches, err := s.full.Launches(partition.StepOptions{Microbatches: s.parts})
	if err != nil {
		return err
	}
	tasks := timing.Tasks(s.full, launches)
	segments, err := timing.Segments(ctx, s.devs, tasks, timing.Options{Known: known})
	if err != nil {
		return err
	}
	copies, err := timing.Copies(ctx, s.devs, tasks, timing.Options{Known: known})
	if err != nil {
		return err
	}
	all := map[costs.Key]float64{}
	maps.Copy(all, segments)
	maps.Copy(all, copies)
	return times.Add(ctx, all)
}

// predicted is what the plan says of a step.
func (s *session) predicted(ctx context.Context) (*partition.Prediction, error) {
	return s.full.Predict(func() error { return context.Cause(ctx) })
}
