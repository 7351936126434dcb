package partition

import (
	"math"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// choose makes the segments. Where memory is short whatever their grain, it tries
// updates in ranges too. It also returns the groups that it made the segments of. The
// plan is nil if none is better than rival, the cost of one that fits.
func (base *Plan) choose(groups *segment.Groups, rival *forecast.Shortage) (*Plan, *segment.Groups, error) {
	if base.options.unforecast {
		p := *base
		return &p, groups, p.cutAt(base.options.grains[0], groups)
	}
	best, err := base.chooseGrain(groups, base.options.grains, false, rival)
	if err != nil || base.options.settled || best != nil && best.shortage().None() {
		return best, groups, err
	}
	grains := finer
	if best != nil && best.shortage().Missing == 0 {
		grains = []segment.Grain{max(best.grain, segment.ByBlock)} // forecasts take long
	}
	for _, r := range divide.RangesFor(leastLimit(base.options.Devices)) {
		ranged, of, err := base.ranged(r)
		if err != nil {
			return nil, nil, err
		}
		if ranged == nil {
			continue
		}
		p, err := ranged.chooseGrain(of, grains, true, best.rivals(rival))
		if err != nil {
			return nil, nil, err
		}
		if p.better(best) {
			best, groups = p, of
		}
		if best != nil && best.shortage().Missing == 0 {
			break
		}
	}
	return best, groups, nil
}

// better reports whether p costs less than best, and takes the peaks of best
// if so. No plan, nil, is the worst.
func (p *Plan) better(best *Plan) bool {
	if p == nil || best != nil && !p.shortage().Less(best.shortage()) {
		return false
	}
	if best != nil {
		p.setPeaks(best.Memory)
	}
	return true
}

// rivals is the cost of p or rival, whichever is less. Both may be nil. If neither fits,
// any plan that fits is as good, or, with settings.exact, any plan at all: nil.
func (p *Plan) rivals(rival *forecast.Shortage) *forecast.Shortage {
	if p == nil {
		return rival
	}
	switch s := p.shortage(); {
	case s.Missing == 0 && (rival == nil || s.Less(*rival)):
		return &s
	case rival == nil && !p.options.exact:
		return &forecast.Shortage{Seconds: math.Inf(1)}
	}
	return rival
}

// setPeaks takes the peaks of the plan that there is without a limit.
func (p *Plan) setPeaks(free []Forecast) {
	for d := range p.Memory {
		p.Memory[d].Peak, p.Memory[d].PeakBy = free[d].Peak, free[d].PeakBy
	}
}

// shortage is the plan's lack of memory.
func (p *Plan) shortage() forecast.Shortage { return forecast.ShortageOf(p.Memory) }

// finer are the grains with which updates can be cut.
var finer = []segment.Grain{segment.ByBlock, segment.ByLayer, segment.ByNode}

// leastLimit is the least memory of a device with a limit, in bytes.
func leastLimit(devices []device.Spec) int64 {
	least := int64(math.MaxInt64)
	for _, d := range devices {
		if d.MemoryBytes > 0 {
			least = min(least, d.MemoryBytes)
		}
	}
	return least
}

// ranged is the beginning of a plan with updates in ranges, and its groups; nil if no
// further update is cut.
func (base *Plan) ranged(r divide.Ranges) (*Plan, *segment.Groups, error) {
	cut := divide.Updates(base.whole.index, r, base.shards)
	if cut == nil || len(cut.Graph.Nodes) == len(base.Graph.Nodes) {
		return nil, nil, base.index.Stop.Err()
	}
	p := *base
	p.ranges = r
	ranged, err := p.inRanges(cut)
	if err != nil {
		return nil, nil, err
	}
	return ranged, segment.NewGroups(ranged.index, ranged.place), nil
}

// inRanges is the beginning of a plan of base's whole graph as it was cut.
func (base *Plan) inRanges(cut *divide.Divided) (*Plan, error) {
	p := *base
	var err error
	if p.index, err = nodes.New(cut.Graph, p.options.indexing(p.ranges.On()), base.index.Stop); err != nil {
		return nil, err
	}
	p.Graph, p.place = cut.Graph, divide.Place(base.whole.place, cut)
	return &p, nil
}

// chooseGrain makes the segments of the coarsest grain with which nothing moves
// for lack of memory; else of that which takes the least time. If no grain fits,
// it is the one that lacks the fewest bytes. With floors, see forecast. Grains that
// cannot be better than rival are left out; the plan is nil if that is all.
func (base *Plan) chooseGrain(groups *segment.Groups, grains []segment.Grain, floors bool, rival *forecast.Shortage) (best *Plan, err error) {
	for _, at := range grains {
		p := *base
		if err := p.cutAt(at, groups); err != nil {
			return nil, err
		}
		r, err := p.forecaster().Forecast(floors || best != nil, best.rivals(rival))
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		p.Memory, p.launches = r.Memory, r.Launches
		s := p.shortage()
		if p.better(best) {
			best = &p
		}
		if s.Missing == 0 && (s.Moved == 0 || p.launches > mostToCompare) {
			break
		}
	}
	return best, nil
}

// mostToCompare is the most launches of a step with which finer grains are tried
// though this one fits: forecasts of many launches take long.
const mostToCompare = 4096

// cutAt makes the segments of a grain.
func (p *Plan) cutAt(at segment.Grain, groups *segment.Groups) error {
	p.grain = at
	var err error
	if p.Segments, err = segment.Make(groups, at, p.Replicas()); err != nil {
		return err
	}
	p.Transfers = segment.Transfers(p.index, p.place, p.Segments, p.cut.Device)
	return p.index.Stop.Err()
}
