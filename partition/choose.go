package partition

import "math"

// choose makes the segments. Where memory is short whatever their grain, it tries
// updates in ranges too. It also returns the groups that it made the segments of.
func (base *Plan) choose(groups *grouped) (*Plan, *grouped, error) {
	best, err := base.chooseGrain(groups, base.options.grains, false)
	if err != nil || base.options.settled || best.shortage().none() {
		return best, groups, err
	}
	grains := finer
	if best.shortage().missing == 0 {
		grains = []grain{max(best.grain, byBlock)} // forecasts take long
	}
	for _, r := range rangings(base.leastLimit()) {
		ranged, of, err := base.ranged(r)
		if err != nil {
			return nil, nil, err
		}
		if ranged == nil {
			continue
		}
		p, err := ranged.chooseGrain(of, grains, true)
		if err != nil {
			return nil, nil, err
		}
		if p.shortage().less(best.shortage()) {
			p.setPeaks(best.Memory)
			best, groups = p, of
		}
		if best.shortage().missing == 0 {
			break
		}
	}
	return best, groups, nil
}

// finer are the grains with which updates can be cut.
var finer = []grain{byBlock, byLayer, byNode}

// leastLimit is the least memory of a device with a limit, in bytes.
func (base *Plan) leastLimit() int64 {
	least := int64(math.MaxInt64)
	for _, d := range base.options.Devices {
		if d.MemoryBytes > 0 {
			least = min(least, d.MemoryBytes)
		}
	}
	return least
}

// ranged is the beginning of a plan with updates in ranges, and its groups; nil if no
// update is cut.
func (base *Plan) ranged(r ranging) (*Plan, *grouped, error) {
	g, from := cutUpdates(base.idx, r)
	if g == nil {
		return nil, nil, base.idx.stop.Err()
	}
	p := *base
	p.options.ranging = r
	var err error
	if p.idx, err = newIndex(g, p.options, base.idx.stop); err != nil {
		return nil, nil, err
	}
	p.Graph, p.place = g, base.place.withRanges(g, from)
	return &p, readyUnits(p.idx, p.place), nil
}

// chooseGrain makes the segments of the coarsest grain with which nothing moves
// for lack of memory; else of that which takes the least time. If no grain fits,
// it is the one that lacks the fewest bytes. With floors, see forecast.
func (base *Plan) chooseGrain(groups *grouped, grains []grain, floors bool) (best *Plan, err error) {
	for _, at := range grains {
		p := *base
		if err := p.cutAt(at, groups, floors || best != nil); err != nil {
			return nil, err
		}
		s := p.shortage()
		if best == nil {
			best = &p
		} else if s.less(best.shortage()) {
			p.setPeaks(best.Memory)
			best = &p
		}
		if s.missing == 0 && (s.moved == 0 || p.launches > mostToCompare) {
			break
		}
	}
	return best, nil
}

// mostToCompare is the most launches of a step with which finer grains are tried
// though this one fits: forecasts of many launches take long.
const mostToCompare = 4096

// cutAt makes the segments of a grain, and forecasts the memory of a step; with
// floors, see forecast.
func (p *Plan) cutAt(at grain, groups *grouped, floors bool) error {
	p.grain = at
	lists, err := listSegments(groups, at)
	if err != nil {
		return err
	}
	b := newBinder(p.idx)
	for i, l := range lists {
		if err := p.idx.stop.Err(); err != nil {
			return err
		}
		l.id, l.device = i, p.cut.device[l.stage]
		p.Segments = append(p.Segments, b.bind(l))
	}
	findFrees(p.idx, p.Segments)
	p.Transfers = findTransfers(p.idx, p.place, p.Segments, p.cut.device)
	return p.forecast(floors)
}
