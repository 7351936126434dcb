package planning

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
)

// Planner plans for a config on devices. It does not change; where devices are lost, another one
// plans for those that are left.
type Planner struct {
	Config  *configs.Config
	Devices []device.Device
	Specs   []device.Spec  // of Devices, with the memory that a plan may take there
	Ranks   []int          // of each device, the rank that has it; nil: one process has all
	Rank    int            // that plans
	Link    partition.Link // between ranks
	Steps   Steps
	Times   Times

	Shared    bool    // other runs work on the devices: nothing is timed there
	Lost      bool    // devices of the run were
	Elsewhere bool    // the config is of a run on other devices: see Elsewhere
	Answering bool    // it plans passes without a backward one
	Unlimited bool    // Specs have no limits: the plan's peaks are what percentages of memory are of
	Picked    *Picked // by partition: auto, without limits; nil: it may choose any plan
	Uneven    *Uneven // steps so far have shown that devices take other times; nil: they have not
}

// Uneven are devices that take other times than those by which a plan was made.
type Uneven struct {
	Plan *partition.Plan // of the steps so far
	Slow []float64       // per device: see [partition.Plan.Slowed]
}

// Steps are the samples of the steps that plans are for.
type Steps struct {
	Batch        int                        // samples of a full step
	Microbatches int                        // of a full step
	LastOf       func(microbatches int) int // microbatches of an epoch's last step, where a full one has so many
}

// Times are measured times of what a plan's steps consist of, in seconds. Those that nobody has
// measured are not known.
type Times interface {
	Seconds(devices []device.Spec, d int, g *graph.Graph, opByOp bool) (seconds float64, known bool)
	CallSeconds(devices []device.Spec, d int) (seconds float64, known bool)
	CopySeconds(devices []device.Spec, from, to int, bytes int64) (seconds float64, known bool)
	HostSeconds(devices []device.Spec, d int, bytes int64, out bool) (seconds float64, known bool)

	// Open readies the times that are kept. Before, none is known.
	Open()
	// Measure opens the times, and measures those of a plan that are not known; everywhere
	// asks for those of each of its segments on each of the devices.
	Measure(ctx context.Context, devices []device.Device, p *partition.Plan, everywhere, opByOp bool) error
}

// Options are the options to plan with as the config asks.
func (p *Planner) Options(ctx context.Context) (partition.PlanOptions, error) {
	c := p.Config.Partition
	order, err := p.order()
	if err != nil {
		return partition.PlanOptions{}, configs.At(p.Config.Where("partition.schedule"), fmt.Errorf("%w: partition.schedule: %w", errs.ErrOptions, err))
	}
	if own, _ := c.Order(); own != nil && order == nil {
		c.Schedule = "" // it is for other devices
	}
	if order != nil && order.Microbatches == p.Config.Train.Microbatches { // a step has fewer where there are few samples
		*order = order.Without(p.Steps.Microbatches)
	}
	opByOp := p.Config.Devices.IsOpByOp()
	return partition.PlanOptions{
		Devices: p.Specs, Ranks: p.Ranks, Rank: p.Rank, Link: p.Link, Stages: c.Stages.Blocks, Count: c.Stages.Count,
		Microbatches: p.Steps.Microbatches, LastMicrobatches: p.Steps.LastOf(p.Steps.Microbatches), Reduction: partition.Reduction(p.Config.Train.Reduction), Replicas: p.replicas(), Shard: partition.Shard(c.Shard), Recompute: partition.Recompute(c.Recompute),
		Schedule: c.Schedule, Order: order, Estimate: p.estimate, Stop: stop.Of(ctx),
		OpByOp:      opByOp,
		Seconds:     func(d int, g *graph.Graph) (float64, bool) { return p.Times.Seconds(p.Specs, d, g, opByOp) },
		HostSeconds: func(d int, bytes int64, out bool) (float64, bool) { return p.Times.HostSeconds(p.Specs, d, bytes, out) },
		CallSeconds: func(d int) (float64, bool) { return p.Times.CallSeconds(p.Specs, d) },
		CopySeconds: func(from, to int, bytes int64) (float64, bool) { return p.Times.CopySeconds(p.Specs, from, to, bytes) },
		Supports:    func(d int, n *graph.Node) error { return p.Devices[d].Supports(n) },
	}, nil
}

// estimate asks a device for the memory of a run. Op by op, nothing is fused; what runs
// both ways needs the larger memory of the two.
func (p *Planner) estimate(d int, g *graph.Graph, o device.CompileOptions) (m device.Memory, err error) {
	if c := p.Config.Devices; !c.IsOpByOp() {
		if m, err = p.Devices[d].Estimate(g, o); err != nil || !c.CompilesBeside() {
			return m, err
		}
	}
	o.CheckFinite = true
	ops, err := p.Devices[d].Estimate(g, o)
	ops.Temporary = max(ops.Temporary, m.Temporary)
	return ops, err
}

// idsOf lists devices: "cpu:0, cpu:1".
func idsOf(devs []device.Device) string {
	var ids []string
	for _, d := range devs {
		ids = append(ids, string(d.ID()))
	}
	return strings.Join(ids, ", ")
}
