package search

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// line is the devices that the stages of a pipeline may be on.
type line struct {
	devices []int   // by stage
	flight  []int   // by stage: the microbatches at once
	least   float64 // seconds per microbatch of the busiest worker in the fastest cut, whatever memory it takes
}

// mostLines bounds the lines of a shape that are looked at. mostSearched is the
// number of those, of all shapes, that are searched for cuts.
const (
	mostLines    = 1000
	mostSearched = 12
)

// lines lists the lines of all shapes, the most promising ones first. Of equally
// good ones, those come first that take devices in the order of the list.
func (p *Problem) lines() []*line {
	var all []*line
	p.latest = []int{p.blocks()}
	for i := p.blocks() - 1; i > 0; i-- {
		if p.Begins[i] {
			p.latest = append(p.latest, i)
		}
	}
	for _, shape := range p.Shapes {
		for _, devices := range p.assignments(slices.Max(shape) + 1) {
			l := &line{devices: make([]int, len(shape))}
			for stage, worker := range shape {
				l.devices[stage] = devices[worker]
			}
			if l.least = p.leastTime(l); math.IsInf(l.least, 1) || p.Stop.Err() != nil {
				continue
			}
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b *line) int { return cmp.Compare(p.promise(a), p.promise(b)) })
	return all
}

// promise is a rough time of a step on a line: the busiest worker has all
// microbatches, and each other one delays the first and the last.
func (p *Problem) promise(l *line) float64 {
	workers := map[int]bool{}
	for _, d := range l.devices {
		workers[d] = true
	}
	return roughly(l.least * float64(p.Microbatches+len(workers)-1))
}

// roughly rounds to five digits: equal sums in another order stay equal.
func roughly(x float64) float64 {
	if x <= 0 || math.IsInf(x, 0) {
		return x
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-5)
	return math.Round(x/unit) * unit
}

// assignments lists the ways to give so many workers a device each. Devices of a
// class are taken in the order of the list. If there are too many ways, they are the
// order of the list and the two by speed.
func (p *Problem) assignments(workers int) [][]int {
	if workers > len(p.Devices) {
		return nil
	}
	var all [][]int
	used := make([]bool, len(p.Devices))
	var add func(so []int)
	add = func(so []int) {
		if len(all) > mostLines {
			return
		}
		if len(so) == workers {
			all = append(all, slices.Clone(so))
			return
		}
		seen := map[int]bool{}
		for d := range p.Devices {
			if c := p.Devices[d].Class; !used[d] && !seen[c] {
				seen[c], used[d] = true, true
				add(append(so, d))
				used[d] = false
			}
		}
	}
	add(nil)
	if len(all) <= mostLines {
		return all
	}
	return p.fewAssignments(workers)
}

// fewAssignments are the first devices, and the fastest ones in both orders.
func (p *Problem) fewAssignments(workers int) [][]int {
	listed := make([]int, len(p.Devices))
	for d := range listed {
		listed[d] = d
	}
	n := p.blocks()
	fast := slices.Clone(listed)
	slices.SortStableFunc(fast, func(a, b int) int { return cmp.Compare(p.Devices[a].Seconds[n], p.Devices[b].Seconds[n]) })
	fast = fast[:workers]
	slow := slices.Clone(fast)
	slices.Reverse(slow)
	inOrder := slices.Sorted(slices.Values(fast))
	return [][]int{listed[:workers], inOrder, fast, slow}
}

// run is neighbouring stages of a line on one device.
type run struct {
	device int
	stages int
	left   int // stages behind it
}

// runs are the runs of a line.
func (l *line) runs() (all []run) {
	for i, d := range l.devices {
		if n := len(all); n > 0 && all[n-1].device == d {
			all[n-1].stages++
			all[n-1].left--
			continue
		}
		all = append(all, run{d, 1, len(l.devices) - i - 1})
	}
	return all
}

// leastTime is the time of the busiest run in the fastest cut, whatever memory it takes;
// infinite if there is no cut.
func (p *Problem) leastTime(l *line) float64 {
	runs, low, high := l.runs(), 0.0, 0.0
	for d := range p.Devices {
		high = max(high, p.Devices[d].Seconds[p.blocks()])
	}
	if !p.possible(runs, high) {
		return math.Inf(1)
	}
	for range 45 { // halvings: to the last digits
		mid := (low + high) / 2
		if p.Stop.Done() || mid == low || mid == high {
			break
		}
		if p.possible(runs, mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// possible reports whether all blocks can be placed with no run busier than the
// bound. Each run takes as many blocks as it can: fewer would leave more to those
// behind it. A stage has at least one block.
func (p *Problem) possible(runs []run, bound float64) bool {
	from := 0
	for _, r := range runs {
		if r.left >= len(p.latest) || p.latest[r.left] < from+r.stages {
			return false
		}
		most := p.latest[r.left]
		hi := from + sort.Search(most-from, func(i int) bool { return p.seconds(from, from+i+1, r.device) > bound })
		for hi > from && !p.Begins[hi] {
			hi--
		}
		if hi < from+r.stages {
			return false
		}
		from = hi
	}
	return from == p.blocks()
}
