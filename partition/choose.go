package partition

// chooseGrain makes the segments of the coarsest grain with which nothing moves
// for lack of memory; else of that which takes the least time. If no grain fits,
// it is the one that lacks the fewest bytes.
func (base *Plan) chooseGrain(groups *grouped) (best *Plan, err error) {
	for _, at := range base.options.grains {
		p := *base
		if err := p.cutAt(at, groups, best != nil); err != nil {
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
