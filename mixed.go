package berth

import (
	"context"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// passing lists the values of a step that pass through the host on their way between
// devices of different kinds.
func (s *setup) passing(ctx context.Context) (values []string, err error) {
	if len(s.plan.Devices()) == 1 {
		return nil, nil
	}
	step, err := s.plan.Predict(stopOf(ctx))
	if err != nil {
		return nil, err
	}
	for _, c := range step.Copies {
		if name := c.Value.Whole().Name; c.Hosted && !slices.Contains(values, name) {
			values = append(values, name)
		}
	}
	return values, nil
}

// feeding is the device from whose host memory batches go in. All kinds copy from any
// host memory, and one that does not address it itself copies fastest from its own.
func (s *session) feeding() device.Device {
	for _, d := range s.plan.Devices() {
		if !s.devices[d].Spec().HostVisible {
			return s.devices[d]
		}
	}
	return s.devices[s.plan.Stages[0].Device]
}
