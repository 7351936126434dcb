package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// rankTimes are the times of the devices of several ranks: those of the book, until all have measured.
type rankTimes struct {
	*timing.Book
	crew *crew.Crew
	of   []int         // of each device, its rank; those of a rank are neighbours
	each []*costs.File // by rank; nil before Measure
}

// timed is a measured time as ranks tell it.
type timed struct {
	costs.Key
	Seconds float64
}

// Measure times, on all ranks at once, what a step of the plan runs on each. All call it, with devices like their own of the plan.
// The times are not kept: those of ranks that share a machine are not those of one process.
func (t *rankTimes) Measure(ctx context.Context, devices []device.Device, p *partition.Plan, _, opByOp bool) error {
	times, err := t.measure(ctx, devices, p, opByOp)
	const what = "its measured times"
	if err := t.crew.Agree(ctx, what, err); err != nil {
		return err
	}
	var own []timed
	for k, s := range times {
		own = append(own, timed{k, s})
	}
	b, err := json.Marshal(own)
	if err != nil {
		return err
	}
	lists, err := t.crew.Gather(ctx, what, b)
	if err != nil {
		return err
	}
	each := make([]*costs.File, len(lists))
	for rank, b := range lists {
		var list []timed
		if err := json.Unmarshal(b, &list); err != nil {
			return fmt.Errorf("%s says %q of its times: %w", t.crew.Name(rank), b, err)
		}
		times := map[costs.Key]float64{}
		for _, x := range list {
			times[x.Key] = x.Seconds
		}
		each[rank] = costs.Unkept(costs.Machine{})
		if err := each[rank].Add(ctx, times); err != nil {
			return err
		}
	}
	t.each = each
	return nil
}

// measure times what this rank runs.
func (t *rankTimes) measure(ctx context.Context, devices []device.Device, p *partition.Plan, opByOp bool) (map[costs.Key]float64, error) {
	rank := t.crew.Rank()
	launches, err := p.Launches(partition.StepOptions{Microbatches: p.Microbatches, Of: t.of, Rank: rank})
	if err != nil {
		return nil, err
	}
	launches = slices.DeleteFunc(launches, func(l partition.Launch) bool { return t.of[l.Device] != rank })
	first := slices.Index(t.of, rank)
	for i := range launches {
		launches[i].Device -= first
	}
	return t.TimesOnly(ctx, devices, timing.Tasks(p, launches), opByOp)
}

// place is the file of the rank that has a device, its devices, and the place of the device among them.
func (t *rankTimes) place(devices []device.Spec, d int) (file *costs.File, own []device.Spec, at int) {
	rank := t.of[d]
	first := slices.Index(t.of, rank)
	end := first
	for end < len(t.of) && t.of[end] == rank {
		end++
	}
	return t.each[rank], devices[first:end], d - first
}

// Seconds is the time of a segment on a device of any rank.
func (t *rankTimes) Seconds(devices []device.Spec, d int, g *graph.Graph, opByOp bool) (float64, bool) {
	if t.each == nil {
		return t.Book.Seconds(devices, d, g, opByOp)
	}
	file, own, at := t.place(devices, d)
	return file.Seconds(costs.SegmentKey(g, opByOp, costs.On(own, at)))
}

// CallSeconds is the time of a call op by op on a device of any rank.
func (t *rankTimes) CallSeconds(devices []device.Spec, d int) (float64, bool) {
	if t.each == nil {
		return t.Book.CallSeconds(devices, d)
	}
	file, own, at := t.place(devices, d)
	return file.Seconds(costs.CallKey(costs.On(own, at)))
}

// CopySeconds is the time of a copy between two devices of a rank. Those of two ranks send messages.
func (t *rankTimes) CopySeconds(devices []device.Spec, from, to int, bytes int64) (float64, bool) {
	if t.each == nil {
		return t.Book.CopySeconds(devices, from, to, bytes)
	}
	file, own, at := t.place(devices, to)
	if t.of[from] != t.of[to] {
		return 0, false
	}
	return file.CopySeconds(costs.Between(own, at+from-to, at), bytes)
}

// HostSeconds is the time of a copy from the host to a device of any rank, or out of it.
func (t *rankTimes) HostSeconds(devices []device.Spec, d int, bytes int64, out bool) (float64, bool) {
	if t.each == nil {
		return t.Book.HostSeconds(devices, d, bytes, out)
	}
	file, own, at := t.place(devices, d)
	return file.HostSeconds(costs.On(own, at), bytes, out)
}
