package search

import (
	"cmp"
	"slices"
)

// Best is the fastest way, of those with memory enough if there are any; of equally
// fast ones the first in the order of the list of devices. ok is false if there is
// none at all, since blocks must not be where they would have to be.
func Best(p *Problem) (best Way, ok bool, err error) {
	lines, foot := p.lines(), map[[2]int]Footprint{}
	few := p.few(lines)
	if !few {
		lines = lines[:min(len(lines), mostSearched)]
	}
	var fitting, others []Way
	for i, l := range lines {
		l.flight = p.InFlight(l.devices)
		c := &cuts{Problem: p, line: l, foot: foot}
		find := c.best
		if few {
			find = c.all
		}
		ways, fits := find()
		if err := p.Stop.Err(); err != nil {
			return Way{}, false, err
		}
		for k := range ways {
			ways[k].line = i
			p.estimate(&ways[k])
		}
		if fits {
			fitting = append(fitting, ways...)
		} else {
			others = append(others, ways...)
		}
	}
	if err := p.Stop.Err(); err != nil {
		return Way{}, false, err
	}
	ways := fitting
	if len(ways) == 0 {
		ways = others
	}
	if len(ways) == 0 {
		return Way{}, false, nil
	}
	best, err = p.fastest(ways, few)
	best.Reordered = reordered(best.Devices)
	return best, true, err
}

// reordered reports whether devices are not the first ones in their order.
func reordered(devices []int) bool {
	next := 0
	for _, d := range devices {
		if d > next {
			return true
		}
		if d == next {
			next++
		}
	}
	return false
}

// estimate sets the seconds of a step: the busiest worker works on all microbatches,
// and the first and the last one pass through the others, too.
func (p *Problem) estimate(w *Way) {
	load := map[int]float64{}
	all := 0.0
	for stage, d := range w.Devices {
		hi := p.blocks()
		if stage+1 < len(w.Begins) {
			hi = w.Begins[stage+1]
		}
		t := p.seconds(w.Begins[stage], hi, d)
		load[d] += t
		all += t
	}
	w.most = 0
	for _, t := range load {
		w.most = max(w.most, t)
	}
	w.Seconds = roughly(all + float64(p.Microbatches-1)*w.most)
}

// fastest simulates the most promising ways, or all if there are few.
func (p *Problem) fastest(ways []Way, few bool) (best Way, err error) {
	slices.SortStableFunc(ways, likely)
	if p.Simulate == nil || len(ways) == 1 {
		return ways[0], nil
	}
	if !few {
		ways = ways[:min(len(ways), mostWays)]
	}
	if err := p.take(ways, p.Simulate); err != nil {
		return Way{}, err
	}
	even := ways[0]
	if p.Predict != nil {
		faster := slices.SortedStableFunc(slices.Values(ways[1:]), bySeconds)
		ways = append([]Way{even}, faster[:min(len(faster), p.Predicted)]...)
		if err := p.take(ways, p.Predict); err != nil {
			return Way{}, err
		}
		even = ways[0]
	}
	best = slices.MinFunc(ways, bySeconds)
	if best.Seconds >= even.Seconds*(1-leastGain)-leastSeconds {
		return even, nil
	}
	return best, nil
}

// take takes the seconds that a function finds for each way.
func (p *Problem) take(ways []Way, seconds func(w Way) float64) error {
	for i, w := range ways {
		if err := p.Stop.Err(); err != nil {
			return err
		}
		ways[i].Seconds, ways[i].Tried = seconds(w), max(w.Tried, len(ways))
	}
	return p.Stop.Err()
}

func bySeconds(a, b Way) int { return cmp.Compare(a.Seconds, b.Seconds) }

// likely compares ways before they are simulated.
func likely(a, b Way) int {
	return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), cmp.Compare(a.line, b.line), cmp.Compare(a.most, b.most), cmp.Compare(a.cross, b.cross), cmp.Compare(a.uneven, b.uneven))
}

// The gain, as a share of a step and in seconds, for which the fastest way is
// preferred to the one that the estimate puts first: less does not show in measured
// steps, and the first way is the most even.
const (
	leastGain    = 0.03
	leastSeconds = 50e-6
)
