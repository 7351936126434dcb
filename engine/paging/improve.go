package paging

import (
	"math"
	"slices"
)

// rounds is how often the shares of copies out are changed, at most.
const rounds = 300

// improve looks for the shares that make the flow cost most: a gap in which more
// is given up should pay more of the copy out. Averages over the flows so far
// tell which; they also tell how much the bound can still grow.
func (r *relaxation) improve() {
	mean := make([]float64, len(r.gaps))
	step, above := 1.0, math.Inf(1)
	for round := range rounds {
		cost := r.cost()
		weight := max(0.1, 1/float64(round+1))
		for i := range mean {
			mean[i] += weight * (r.given[i] - mean[i])
		}
		above = min(above, r.whole(mean), r.whole(r.given))
		if cost < r.best+1e-4*(above-r.best) {
			step = max(0.02, step*0.95)
		}
		r.best = max(r.best, cost)
		if above-r.best <= 1e-3*above || !r.raise(mean, step*(above-cost)) {
			return
		}
	}
}

// whole is the cost of giving up so many bytes in each gap, with each copy out
// paid by the gap that gives up most.
func (r *relaxation) whole(given []float64) (cost float64) {
	for i, g := range r.gaps {
		if g.loads {
			cost += given[i]
		}
	}
	for _, out := range r.outs {
		most := 0.0
		for _, i := range out {
			most = max(most, given[i])
		}
		cost += most
	}
	return cost
}

// raise moves the shares towards the gaps that give up more, in all by as much
// as should close a distance to the best cost. It reports whether any changed.
func (r *relaxation) raise(given []float64, distance float64) bool {
	square := 0.0
	for _, out := range r.outs {
		mean := 0.0
		for _, i := range out {
			mean += given[i] / float64(len(out))
		}
		for _, i := range out {
			square += (given[i] - mean) * (given[i] - mean)
		}
	}
	if square == 0 {
		return false
	}
	for _, out := range r.outs {
		if len(out) == 1 {
			continue
		}
		for _, i := range out {
			r.share[i] += distance / square * given[i]
		}
		r.project(out)
	}
	return true
}

// project makes shares at least 0 and their sum 1, with the smallest change.
func (r *relaxation) project(out []int) {
	sorted := make([]float64, len(out))
	for k, i := range out {
		sorted[k] = r.share[i]
	}
	slices.Sort(sorted)
	slices.Reverse(sorted)
	sum, less := 0.0, 0.0
	for k, s := range sorted {
		sum += s
		if l := (sum - 1) / float64(k+1); s > l {
			less = l
		}
	}
	for _, i := range out {
		r.share[i] = max(0, r.share[i]-less)
	}
}
