package timing

import (
	"context"
	"maps"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/costs"
)

// All times what a prediction takes that runs these tasks: [Segments], [Copies] between
// the devices, [HostCopies], and op by op [Calls].
func All(ctx context.Context, devs []device.Device, tasks []Task, o Options) (map[costs.Key]float64, error) {
	times, err := Segments(ctx, devs, tasks, o)
	if err != nil {
		return nil, err
	}
	copies, err := Copies(ctx, devs, tasks, o)
	if err != nil {
		return nil, err
	}
	hosts, err := HostCopies(ctx, devs, o)
	if err != nil {
		return nil, err
	}
	maps.Copy(times, copies)
	maps.Copy(times, hosts)
	if o.OpByOp {
		calls, err := Calls(ctx, devs, o)
		if err != nil {
			return nil, err
		}
		maps.Copy(times, calls)
	}
	return times, nil
}
