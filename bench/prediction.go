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

// copySeconds is the measured time of a copy to a device.
func (s *session) copySeconds(_, to int, bytes int64) (float64, bool) {
	if s.times == nil {
		return 0, false
	}
	return s.times.CopySeconds(costs.On(specs(s.devs), to), bytes)
}

// timeSegments measures the plan's segments and copies anew, into a file;
// [session.predicted] is then by their times.
func (s *session) timeSegments(ctx context.Context, path string) error {
	launches, err := s.full.Launches(partition.StepOptions{Microbatches: s.parts})
	if err != nil {
		return err
	}
	tasks := timing.Tasks(s.full, launches)
	times, err := timing.Segments(ctx, s.devs, tasks, timing.Options{})
	if err != nil {
		return err
	}
	copies, err := timing.Copies(ctx, s.devs, tasks, timing.Options{})
	if err != nil {
		return err
	}
	maps.Copy(times, copies)
	if s.times, err = costs.Open(path, costs.ThisMachine()); err != nil {
		return err
	}
	return s.times.Add(ctx, times)
}

// predicted is what the plan says of a step.
func (s *session) predicted(ctx context.Context) (*partition.Prediction, error) {
	return s.full.Predict(func() error { return context.Cause(ctx) })
}
