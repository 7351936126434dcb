package footprint

import (
	"math"
	"math/bits"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// scratchBounds bounds the scratch of a unit with the nodes of neighbouring groups in
// one phase.
type scratchBounds struct {
	least mostOf
	most  mostOf  // where the groups' nodes run group by group
	sums  []int64 // elsewhere: of the groups before each
}

// newScratchBounds measures each group's unit. between is the bytes of the values that
// cross the cut before each group within the phase. Where groups run one after the
// other, only one of them has scratch of its own at a time, in addition to the values that
// cross the cut before it and the one behind it.
func newScratchBounds(g *Meter, phase graph.Phase, between []int64) (b scratchBounds) {
	n := len(g.All)
	least, most := make([]int64, n), make([]int64, n)
	sure := phase == graph.Forward || phase == graph.Backward && !g.Index.Splits || phase == graph.Update && !g.Index.Merging()
	for i := range g.All {
		s := trialStage{Meter: g, lo: i, hi: i + 1}
		s.inside.Clear()
		most[i] = s.scratch(g.All[i].Nodes[phase])
		if s.bare = true; sure {
			least[i] = s.scratch(g.All[i].Nodes[phase])
		}
	}
	b.least = newMostOf(least)
	if !g.groupByGroup(phase) {
		b.sums = make([]int64, n+1)
		for i, x := range most {
			b.sums[i+1] = b.sums[i] + x + between[i+1]
		}
		return b
	}
	for i := range most {
		most[i] += between[i] + between[i+1]
	}
	b.most = newMostOf(most)
	return b
}

// atLeast is no more than the scratch of groups lo to hi-1: each has its own whatever
// others there are.
func (b scratchBounds) atLeast(lo, hi int) int64 { return b.least.of(lo, hi) }

// atMost is no less than the scratch of groups lo to hi-1.
func (b scratchBounds) atMost(lo, hi int) int64 {
	if b.sums != nil {
		return b.sums[hi] - b.sums[lo]
	}
	return b.most.of(lo, hi)
}

// mostOf answers which number of a range is the largest: [k][i] is that of the numbers
// i to i+1<<k-1. Two such runs, from either end, cover any range.
type mostOf [][]int64

func newMostOf(list []int64) mostOf {
	m := mostOf{list}
	for half := 1; 2*half <= len(list); half *= 2 {
		prev := m[len(m)-1]
		next := make([]int64, len(list)-2*half+1)
		for i := range next {
			next[i] = max(prev[i], prev[i+half])
		}
		m = append(m, next)
	}
	return m
}

// of is the largest of the numbers lo to hi-1.
func (m mostOf) of(lo, hi int) int64 {
	k := bits.Len(uint(hi-lo)) - 1
	return max(m[k][lo], m[k][hi-1<<k])
}

// groupByGroup reports whether no two groups' nodes of a phase take turns.
func (g *Meter) groupByGroup(phase graph.Phase) bool {
	var at [][2]int // first and last position of each group
	for i := range g.All {
		first, last := math.MaxInt, -1
		for _, n := range stop.Each(g.Index.Stop, g.All[i].Nodes[phase]) {
			first, last = min(first, g.Index.Position[n.ID]), max(last, g.Index.Position[n.ID])
		}
		if last >= 0 {
			at = append(at, [2]int{first, last})
		}
	}
	slices.SortFunc(at, func(a, b [2]int) int { return a[0] - b[0] })
	for i := 1; i < len(at); i++ {
		if at[i][0] < at[i-1][1] {
			return false
		}
	}
	return true
}
