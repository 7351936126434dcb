package session

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/partition"
)

// likeTimes are the measured times of ranks that there are not: those of the devices of this process, which theirs are like.
type likeTimes struct {
	*timing.Book
	devices []device.Device
	specs   []device.Spec
}

// Seconds is that of the device that it is like.
func (t *likeTimes) Seconds(_ []device.Spec, d int, g *graph.Graph, opByOp bool) (float64, bool) {
	return t.Book.Seconds(t.specs, d%len(t.specs), g, opByOp)
}

// CallSeconds is that of the device that it is like.
func (t *likeTimes) CallSeconds(_ []device.Spec, d int) (float64, bool) {
	return t.Book.CallSeconds(t.specs, d%len(t.specs))
}

// CopySeconds is that of the devices that these are like.
func (t *likeTimes) CopySeconds(_ []device.Spec, from, to int, bytes int64) (float64, bool) {
	return t.Book.CopySeconds(t.specs, from%len(t.specs), to%len(t.specs), bytes)
}

// HostSeconds is that of the device that it is like.
func (t *likeTimes) HostSeconds(_ []device.Spec, d int, bytes int64, out bool) (float64, bool) {
	return t.Book.HostSeconds(t.specs, d%len(t.specs), bytes, out)
}

// Measure measures on the devices of this process.
func (t *likeTimes) Measure(ctx context.Context, _ []device.Device, p *partition.Plan, everywhere, opByOp bool) error {
	return t.MeasureLike(ctx, t.devices, p, everywhere, opByOp)
}
