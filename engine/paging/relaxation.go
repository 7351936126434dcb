package paging

import (
	"math"
	"slices"
)

// relaxation is the flow whose cost bounds the bytes moved. Node i stands for
// the time before launch i. A gap is an arc from the time before its first launch
// to the time after its last, and its flow is the bytes given up. A slack arc leads
// back over each launch: its flow is the bytes that were given up and need not be.
type relaxation struct {
	trace  *Trace
	gaps   []gap
	outs   [][]int   // per write, the gaps that share its copy out
	share  []float64 // of the copy out that a gap pays
	flow   *flow
	short  bool      // some launch needs another object's memory
	start  int       // the launch that the winding is counted at
	wound  []int     // the gaps that contain start
	demand int64     // bytes to give up at start
	price  float64   // of the bytes given up at start, in the last flow
	given  []float64 // bytes that the last flow gives up, per gap
	best   float64
}

func newRelaxation(t *Trace, limit int64) *relaxation {
	r := &relaxation{trace: t, gaps: t.gaps()}
	n := len(t.Launches)
	spare := make([]int64, n) // beside a launch's lease
	demand := make([]int64, n)
	for i := range t.Launches {
		spare[i] = limit - t.Lease(&t.Launches[i])
		demand[i] = -spare[i]
		if spare[i] < spare[r.start] {
			r.start = i
		}
	}
	var arcs []arc
	for i, g := range r.gaps {
		size := Rounded(t.Objects[g.object].Bytes)
		for k := range g.count {
			demand[(g.first+k)%n] += size
		}
		arcs = append(arcs, arc{from: g.first % n, to: (g.first + g.count) % n, most: size, flow: size})
		if (r.start-g.first%n+n)%n < g.count {
			r.wound = append(r.wound, i)
		}
	}
	r.short = slices.Max(demand) > 0
	r.demand = demand[r.start]
	r.flow = newFlow(append(arcs, slacks(spare, r.start)...), upwards(len(arcs), n, r.start))
	r.shareOuts()
	return r
}

// slacks makes the slack arcs for everything being given up. There is then the
// least slack at the launch start; less by that much, it is none there.
func slacks(spare []int64, start int) (arcs []arc) {
	n := len(spare)
	for i, s := range spare {
		arcs = append(arcs, arc{from: (i + 1) % n, to: i, most: math.MaxInt64 / 4, flow: s - spare[start]})
	}
	return arcs
}

// upwards makes a tree of the slack arcs but the one over start. Its root is the
// time after start, to which they all lead.
func upwards(first, n, start int) []int {
	up := make([]int, n)
	for i := range n {
		up[(i+1)%n] = first + i
	}
	up[(start+1)%n] = -1
	return up
}

// shareOuts splits each copy out evenly among its gaps.
func (r *relaxation) shareOuts() {
	type write struct{ object, launch int }
	index := map[write]int{}
	r.share = make([]float64, len(r.gaps))
	for i, g := range r.gaps {
		if g.write < 0 {
			continue
		}
		w := write{g.object, g.write}
		k, known := index[w]
		if !known {
			k = len(r.outs)
			index[w] = k
			r.outs = append(r.outs, nil)
		}
		r.outs[k] = append(r.outs[k], i)
	}
	for _, out := range r.outs {
		for _, i := range out {
			r.share[i] = 1 / float64(len(out))
		}
	}
}
