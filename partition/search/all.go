package search

import "math"

// mostTried is the most ways of a small problem, all of which are simulated.
const mostTried = 400

// few reports whether the lines have so few cuts that each can be tried.
func (p *Problem) few(lines []*line) bool {
	inside := 0 // blocks with which a second stage can begin
	for _, ok := range p.Begins[1:p.blocks()] {
		if ok {
			inside++
		}
	}
	sum := 0
	for _, l := range lines {
		if sum += choose(inside, len(l.devices)-1, mostTried); sum > mostTried {
			return false
		}
	}
	return true
}

// choose is the number of ways to choose k of n, or more than most.
func choose(n, k, most int) int {
	ways := 1
	for i := range k {
		if ways = ways * (n - i) / (i + 1); ways > most {
			return most + 1
		}
	}
	return ways
}

// all are the cuts of a line that fit; all that there are if none fits.
func (c *cuts) all() (ways []Way, fits bool) {
	for _, fit := range []bool{true, false} {
		c.extendAll(&label{}, 0, 0, fit, func(l *label) { ways = append(ways, c.way(l, fit)) })
		if len(ways) > 0 {
			return ways, fit
		}
	}
	return nil, false
}

// extendAll calls f for every way to go on from a label of the blocks before lo.
func (c *cuts) extendAll(l *label, stage, lo int, fit bool, f func(l *label)) {
	if stage == len(c.devices) {
		f(l)
		return
	}
	from, to := c.ends(stage)
	for hi := max(from, lo+1); hi <= to; hi++ {
		if !c.Begins[hi] {
			continue
		}
		if next := c.extend(l, stage, lo, hi, fit, math.MaxFloat64); next != nil {
			c.extendAll(next, stage+1, hi, fit, f)
		}
	}
}
