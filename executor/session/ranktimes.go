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

// rankTimes are the measured times of ranks. Each times its own devices, and all have the times of all: two that measure
// the same work find other times, and would cut the model in other ways.
type rankTimes struct {
	book  *timing.Book
	crew  *crew.Crew
	of    []int         // of each device, the rank that has it
	known []*costs.File // of each rank
}

// timeOfRank is a time as ranks tell each other.
type timeOfRank struct {
	costs.Key
	Seconds float64 `json:"seconds"`
}

// newRankTimes has no times yet.
func newRankTimes(b *timing.Book, c *crew.Crew, of []int) *rankTimes {
	t := &rankTimes{book: b, crew: c, of: of}
	for range c.Size() {
		t.known = append(t.known, costs.Unkept(costs.ThisMachine()))
	}
	return t
}

// places are the devices of a rank: those from first to the one before end.
func (t *rankTimes) places(rank int) (first, end int) {
	first = slices.Index(t.of, rank)
	for end = first; end < len(t.of) && t.of[end] == rank; end++ {
	}
	return first, end
}

// at is a device by what its rank knows: the times, the devices there, and which of them it is.
func (t *rankTimes) at(devices []device.Spec, d int) (*costs.File, []device.Spec, int) {
	first, end := t.places(t.of[d])
	return t.known[t.of[d]], devices[first:end], d - first
}

// Seconds implements [planning.Times].
func (t *rankTimes) Seconds(devices []device.Spec, d int, g *graph.Graph, opByOp bool) (float64, bool) {
	f, there, i := t.at(devices, d)
	if f.Len() == 0 {
		return 0, false
	}
	return f.Seconds(costs.SegmentKey(g, opByOp, costs.On(there, i)))
}

// CallSeconds implements [planning.Times].
func (t *rankTimes) CallSeconds(devices []device.Spec, d int) (float64, bool) {
	f, there, i := t.at(devices, d)
	return f.Seconds(costs.CallKey(costs.On(there, i)))
}

// CopySeconds implements [planning.Times]. Between ranks it is not known: the link says what that takes.
func (t *rankTimes) CopySeconds(devices []device.Spec, from, to int, bytes int64) (float64, bool) {
	if t.of[from] != t.of[to] {
		return 0, false
	}
	f, there, i := t.at(devices, to)
	return f.CopySeconds(costs.Between(there, i-to+from, i), bytes)
}

// HostSeconds implements [planning.Times].
func (t *rankTimes) HostSeconds(devices []device.Spec, d int, bytes int64, out bool) (float64, bool) {
	f, there, i := t.at(devices, d)
	return f.HostSeconds(costs.On(there, i), bytes, out)
}

// Open implements [planning.Times]. Ranks plan with the times of [rankTimes.Measure] alone: others are not known to all.
func (t *rankTimes) Open() {}

// Measure implements [planning.Times]. All ranks call it, with the plan's devices, or with others in place of their own alone.
func (t *rankTimes) Measure(ctx context.Context, devices []device.Device, p *partition.Plan, everywhere, opByOp bool) error {
	const what = "measured times"
	first, end := t.places(t.crew.Rank())
	if len(devices) == len(t.of) {
		devices = devices[first:end]
	}
	times, err := t.book.MeasureOwn(ctx, devices, first, t.crew.Part().Of, p, everywhere, opByOp)
	if err := t.crew.Agree(ctx, what, err); err != nil {
		return err
	}
	list := make([]timeOfRank, 0, len(times))
	for k, s := range times {
		list = append(list, timeOfRank{k, s})
	}
	mine, err := json.Marshal(list)
	if err != nil {
		return err
	}
	lists, err := t.crew.Gather(ctx, what, mine)
	if err != nil {
		return err
	}
	for rank, b := range lists {
		list = nil
		if err := json.Unmarshal(b, &list); err != nil {
			return fmt.Errorf("%s: %s are %q: %w", t.crew.Name(rank), what, b, err)
		}
		times = map[costs.Key]float64{}
		for _, x := range list {
			times[x.Key] = x.Seconds
		}
		if err := t.known[rank].Add(ctx, times); err != nil {
			return err
		}
	}
	return nil
}
