package footprint

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/search"
)

// Bounds bounds what [Meter.Measure] gives for neighbouring groups as one stage, from both
// sides and in constant time.
//
// A stage takes what each of its groups takes in every stage (least) and what it may
// take besides (more), values that cross the cuts where it starts and ends, and scratch.
type Bounds struct {
	g            *Meter
	least, more  []search.Footprint // of the groups before each
	kept         []int64            // of the groups before each: per microbatch in flight, the least more of a stage behind the first
	starts, ends cutBounds          // for the stage that starts, or ends, at the cut before each group
	scratch      [3]scratchBounds   // by phase
}

// NewBounds counts each group's values once.
func NewBounds(g *Meter) *Bounds {
	n := len(g.All) + 1
	b := &Bounds{
		g: g, least: make([]search.Footprint, n), more: make([]search.Footprint, n), kept: make([]int64, n),
		starts: newCutBounds(n), ends: newCutBounds(n),
	}
	between := b.addCrossings()
	b.addVariables()
	b.addActivations()
	b.addKept()
	b.addGradients()
	for i := range n - 1 {
		b.least[i+1], b.more[i+1] = b.least[i+1].Plus(b.least[i]), b.more[i+1].Plus(b.more[i])
	}
	runningSum(b.kept)
	for phase := range b.scratch {
		b.scratch[phase] = newScratchBounds(g, graph.Phase(phase), between[phase])
	}
	return b
}

// AtLeast is no more than the memory of groups lo to hi-1 as one stage.
func (b *Bounds) AtLeast(lo, hi int) search.Footprint {
	f := b.least[hi].Minus(b.least[lo])
	switch merging := b.g.Index.Merging(); {
	case merging && hi == len(b.g.All):
		f.PerFlight = 0 // results of forward may be inside the unit that goes backward, too
	case lo > 0:
		f.PerFlight += b.kept[hi] - b.kept[lo]
	}
	var scratch int64
	for _, s := range b.scratch {
		scratch = max(scratch, s.atLeast(lo, hi))
	}
	f.Fixed += scratch
	return f.Plus(b.starts.least[lo]).Plus(b.ends.least[hi])
}

// AtMost is no less than the memory of groups lo to hi-1 as one stage.
func (b *Bounds) AtMost(lo, hi int) search.Footprint {
	f := b.least[hi].Minus(b.least[lo]).Plus(b.more[hi]).Minus(b.more[lo])
	f.PerFlight += b.kept[hi] - b.kept[lo]
	var scratch int64
	for _, s := range b.scratch {
		if x := s.atMost(lo, hi); b.g.Index.Merging() {
			scratch += x // passes may share a unit
		} else {
			scratch = max(scratch, x)
		}
	}
	f.Fixed += scratch
	return f.Plus(b.starts.most[lo]).Plus(b.ends.most[hi])
}

// runningSum turns changes into values.
func runningSum(list []int64) {
	for i := 1; i < len(list); i++ {
		list[i] += list[i-1]
	}
}

// addCrossings counts the values that cross each cut. between is, by phase and cut,
// those that only nodes of the phase in which they are made read.
func (b *Bounds) addCrossings() (between [3][]int64) {
	for phase := range between {
		between[phase] = make([]int64, len(b.starts.most))
	}
	idx := b.g.Index
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		for _, v := range n.Out {
			at, last := b.g.Placement.Node[n.ID], idx.LastPhase(v)
			low, high := at, at
			for _, r := range idx.Readers[v.ID] {
				low, high = min(low, b.g.Placement.Node[r.ID]), max(high, b.g.Placement.Node[r.ID])
			}
			if last == n.Phase {
				AddOver(between[last], low, high, v.Meta.Bytes())
			}
			if last != graph.Update && low < high {
				b.addCrossing(v, at, low, high)
			}
		}
	}
	for _, sum := range between {
		runningSum(sum)
	}
	for _, sum := range [][]search.Footprint{b.starts.most, b.ends.most} {
		for i := range len(sum) - 1 {
			sum[i+1] = sum[i+1].Plus(sum[i])
		}
	}
	return between
}

// addCrossing counts a value that group at makes, and groups low to high make or read.
// A stage that reads it keeps it for each microbatch in flight if it is a result of
// forward that backward reads; the stage that makes it has counted it then. A gradient
// may be kept for W. Other values take memory in both stages, once.
func (b *Bounds) addCrossing(v *graph.Value, at, low, high int) {
	once := search.Footprint{Fixed: v.Meta.Bytes()}
	read, made := once, once
	switch forW := b.g.Index.Splits && v.Node.Phase == graph.Backward; {
	case v.Node.Phase == graph.Forward && b.g.Index.LastPhase(v) == graph.Backward:
		read, made = search.Footprint{PerFlight: v.Meta.Bytes()}, search.Footprint{}
		b.addCertain(v, at, read, made)
	case forW:
		b.addCertain(v, at, once, search.Footprint{}) // kept or not
		read = search.Footprint{PerFlight: v.Meta.Bytes()}
	default:
		b.addCertain(v, at, once, once)
	}
	b.starts.addOver(at, high, read)
	b.ends.addOver(at, high, made)
	b.ends.addOver(low, at, read)
	b.starts.addOver(low, at, made)
}

// addCertain counts a value for stages that start or end with a group that reads it, or
// with the one that makes it: those have it whatever other groups there are.
func (b *Bounds) addCertain(v *graph.Value, at int, read, made search.Footprint) {
	starts, ends := b.starts.least, b.ends.least
	seen, leaves := map[int]bool{at: true}, false
	for _, r := range b.g.Index.Readers[v.ID] {
		by := b.g.Placement.Node[r.ID]
		switch {
		case seen[by]:
		case by > at:
			starts[by] = starts[by].Plus(read)
			leaves = leaves || v.Node.Phase == graph.Forward
		default:
			ends[by+1] = ends[by+1].Plus(read)
			leaves = leaves || v.Node.Phase == graph.Backward
		}
		seen[by] = true
	}
	switch { // in the direction of its pass, so that it is counted once
	case leaves && v.Node.Phase == graph.Forward:
		ends[at+1] = ends[at+1].Plus(made)
	case leaves:
		starts[at] = starts[at].Plus(made)
	}
}

// cutBounds are bounds on the memory of values that cross cuts, by cut.
type cutBounds struct{ least, most []search.Footprint }

func newCutBounds(cuts int) cutBounds {
	return cutBounds{make([]search.Footprint, cuts), make([]search.Footprint, cuts)}
}

// addOver adds to the most of the cuts between two groups, as a change from the cut
// before.
func (c cutBounds) addOver(from, to int, f search.Footprint) {
	if from < to {
		c.most[from+1] = c.most[from+1].Plus(f)
		c.most[to+1] = c.most[to+1].Minus(f)
	}
}

// addVariables counts variables and inputs: for the first group that uses one as
// least, for the others as more.
func (b *Bounds) addVariables() {
	first := nodes.NewMarks(len(b.g.Index.Graph.Values))
	for i := range b.g.All {
		for v := range b.alone(i).uses() {
			at := &b.more[i+1]
			if first.Add(v.ID) {
				at = &b.least[i+1]
			}
			at.Fixed += b.g.Index.WholeStep(v)
		}
	}
}

// alone is a group as a stage of its own.
func (b *Bounds) alone(i int) *trialStage { return &trialStage{Meter: b.g, lo: i, hi: i + 1} }

// addActivations counts the results of forward that backward reads.
func (b *Bounds) addActivations() {
	for i := range b.g.All {
		for n := range b.alone(i).each(graph.Forward) {
			for _, v := range n.Out {
				if b.g.Index.LastPhase(v) == graph.Backward {
					b.least[i+1].PerFlight += v.Meta.Bytes()
				}
			}
		}
	}
}

// addGradients counts sums over microbatches, and what the update reads from others.
func (b *Bounds) addGradients() {
	idx := b.g.Index
	for i := range b.g.All {
		s := b.alone(i)
		s.seen.Clear()
		for n := range s.each(graph.Forward, graph.Backward) {
			for _, v := range n.Out {
				for _, a := range idx.Accums[v.ID] {
					b.least[i+1].Fixed += idx.Graph.Accums[a].Sum.Meta.Bytes() * idx.PartialSums()
				}
				if idx.LastPhase(v) == graph.Update {
					b.more[i+1].Fixed += v.Meta.Bytes()
				}
			}
		}
		for n := range s.each(graph.Update) {
			for _, v := range n.In {
				made := v.Kind == graph.Summed && s.makes(idx.Part[v.ID]) || v.Kind == graph.Computed && s.makes(v)
				if (v.Kind == graph.Summed || v.Kind == graph.Computed) && !made && s.seen.Add(v.ID) {
					b.more[i+1].Fixed += v.Meta.Bytes()
				}
			}
		}
	}
}

// addKept counts the gradients that B keeps for W. A node is in the B of a stage if
// its results lead to a backward node outside it, so the lowest and the highest group
// to which results lead decide. A gradient is kept if a node that reads it leads to
// fewer groups. That is certain where the gradient leads to the first group and the
// node only to its own.
func (b *Bounds) addKept() {
	idx, pl := b.g.Index, b.g.Placement
	if !idx.Splits {
		return
	}
	type groups struct{ low, high int }
	leads := make([]groups, idx.IDs) // by Node.ID
	for i := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		n := idx.Graph.Nodes[len(idx.Graph.Nodes)-1-i]
		if n.Phase != graph.Backward {
			continue
		}
		to := groups{pl.Node[n.ID], pl.Node[n.ID]}
		for _, r := range backwardReaders(idx, n) {
			to.low, to.high = min(to.low, leads[r.ID].low), max(to.high, leads[r.ID].high)
		}
		leads[n.ID] = to
		for _, v := range n.Out {
			own := groups{pl.Node[n.ID], pl.Node[n.ID]}
			certain, possible := false, false
			for _, r := range idx.Readers[v.ID] {
				if r.Phase == graph.Backward {
					certain = certain || to.low == 0 && leads[r.ID] == own
					possible = possible || leads[r.ID] != to
				}
			}
			switch at := pl.Node[n.ID] + 1; {
			case certain:
				b.kept[at] += v.Meta.Bytes()
			case possible:
				b.more[at].PerFlight += v.Meta.Bytes()
			}
		}
	}
}

// backwardReaders are the nodes of the backward pass that read results of n.
func backwardReaders(idx *nodes.Index, n *graph.Node) (list []*graph.Node) {
	for _, v := range n.Out {
		for _, r := range idx.Readers[v.ID] {
			if r.Phase == graph.Backward {
				list = append(list, r)
			}
		}
	}
	return list
}

// AddOver adds bytes to the cuts between two blocks, as a change from the cut before.
func AddOver(cuts []int64, from, to int, bytes int64) {
	if from < to {
		cuts[from+1] += bytes
		cuts[to+1] -= bytes
	}
}
