package bench

import (
	"context"

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
	x, ok := s.times[costs.Key{Work: graph.Signature(g), On: costs.On(specs(s.devs), d)}]
	return x, ok
}

// timeSegments measures the plan's segments, which [session.predicted] is then of.
func (s *session) timeSegments(ctx context.Context) error {
	launches, err := s.full.Launches(partition.StepOptions{Microbatches: s.parts})
	if err != nil {
		return err
	}
	s.times, err = timing.Segments(ctx, s.devs, timing.Tasks(s.full, launches), timing.Options{})
	return err
}

// predicted is what the plan says of a step.
func (s *session) predicted(ctx context.Context) (*partition.Prediction, error) {
	return s.full.Predict(func() error { return context.Cause(ctx) })
}
