package partition

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// footprint is what a run of groups costs on its device.
type footprint struct {
	flops      int64                   // F and B, per microbatch
	parameters int64                   // elements of the parameters owned
	bytesIn    int64                   // per microbatch, made by other groups
	fixed      [device.NumUsages]int64 // bytes whatever is in flight
	held       int64                   // bytes of activations per microbatch in flight
}

// memory is bytes by usage with that many microbatches in flight.
func (f footprint) memory(inFlight int) [device.NumUsages]int64 {
	m := f.fixed
	m[device.Activation] += f.held * int64(inFlight)
	return m
}

func total(m [device.NumUsages]int64) int64 {
	var t int64
	for _, b := range m {
		t += b
	}
	return t
}

// span is the nodes of groups lo to hi-1, by phase, in graph order.
type span struct {
	idx    *index
	pl     *placement
	lo, hi int
	nodes  [3][]*graph.Node
}

func newSpan(idx *index, pl *placement, lo, hi int) *span {
	s := &span{idx: idx, pl: pl, lo: lo, hi: hi}
	for _, n := range idx.g.Nodes {
		if s.has(pl.node[n.ID]) {
			s.nodes[n.Phase] = append(s.nodes[n.Phase], n)
		}
	}
	return s
}

func (s *span) has(group int) bool { return group >= s.lo && group < s.hi }

func (s *span) makes(v *graph.Value) bool {
	return v.Kind == graph.Computed && s.has(s.pl.node[v.Node.ID])
}

// measure is pass 2: what groups lo to hi-1 cost together. skip holds the
// variables and inputs that the device has already for another stage.
func measure(idx *index, pl *placement, lo, hi int, skip map[*graph.Value]bool) footprint {
	s := newSpan(idx, pl, lo, hi)
	var f footprint
	for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
		for _, n := range s.nodes[phase] {
			f.flops += n.Cost().Flops
		}
	}
	s.variables(&f, skip)
	s.activations(&f)
	s.gradients(&f)
	for _, nodes := range s.nodes {
		f.fixed[device.Scratch] = max(f.fixed[device.Scratch], s.scratch(nodes))
	}
	return f
}

// variables counts what is read or assigned here, wherever it is owned, and
// the inputs of a whole step.
func (s *span) variables(f *footprint, skip map[*graph.Value]bool) {
	seen := map[*graph.Value]bool{}
	count := func(v *graph.Value) {
		if seen[v] {
			return
		}
		seen[v] = true
		switch {
		case skip[v]:
		case v.Kind == graph.Input:
			f.fixed[device.Input] += v.Meta.Bytes() * int64(s.idx.microbatches)
		case v.Kind == graph.Variable:
			f.fixed[s.idx.usage(v)] += v.Meta.Bytes()
		}
	}
	for _, nodes := range s.nodes {
		for _, n := range nodes {
			for _, v := range n.In {
				count(v)
			}
			for _, v := range n.Out {
				if h := s.idx.holder[v]; h != nil {
					count(h)
				}
			}
		}
	}
	for _, v := range s.idx.g.Vars {
		if v.Role == graph.Parameter && s.has(s.pl.owner[v.Name]) {
			f.parameters += int64(v.Meta.Elems())
		}
	}
}

// usage is what a value's memory counts as.
func (x *index) usage(v *graph.Value) device.Usage {
	switch {
	case v.Kind == graph.Input:
		return device.Input
	case v.Kind == graph.Variable && (v.Role == graph.Parameter || v.Role == graph.Statistic):
		return device.Weight
	case v.Kind == graph.Variable:
		return device.OptState
	case v.Kind == graph.Summed, x.lastPhase(v) == graph.Update:
		return device.Grad
	}
	return device.Activation
}

// lastPhase is the latest phase that reads v.
func (x *index) lastPhase(v *graph.Value) graph.Phase {
	last := v.Node.Phase
	for _, r := range x.readers[v] {
		last = max(last, r.Phase)
	}
	return last
}

// activations counts what forward makes for backward, once per microbatch in
// flight, and what crosses to and from other groups.
func (s *span) activations(f *footprint) {
	seen := map[*graph.Value]bool{}
	count := func(v *graph.Value, crosses bool) {
		if seen[v] || v.Kind != graph.Computed {
			return
		}
		seen[v] = true
		switch last := s.idx.lastPhase(v); {
		case v.Node.Phase == graph.Forward && last == graph.Backward:
			f.held += v.Meta.Bytes()
		case crosses && last != graph.Update:
			f.fixed[device.Activation] += v.Meta.Bytes()
		}
	}
	for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
		for _, v := range read(s.nodes[phase]) {
			if v.Kind == graph.Computed && !s.makes(v) && !seen[v] {
				f.bytesIn += v.Meta.Bytes()
			}
			count(v, !s.makes(v))
		}
	}
	for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
		for _, n := range s.nodes[phase] {
			for _, v := range n.Out {
				if s.leaves(v) {
					count(v, true)
				}
			}
		}
	}
}

// leaves reports whether another group reads v.
func (s *span) leaves(v *graph.Value) bool {
	for _, r := range s.idx.readers[v] {
		if !s.has(s.pl.node[r.ID]) {
			return true
		}
	}
	return false
}

// gradients counts the sums kept here, and what the update reads from other
// segments.
func (s *span) gradients(f *footprint) {
	seen := map[*graph.Value]bool{}
	count := func(v *graph.Value) {
		if !seen[v] {
			seen[v] = true
			f.fixed[device.Grad] += v.Meta.Bytes()
		}
	}
	for _, a := range s.idx.g.Accums {
		if s.idx.part[a.Sum] != nil && s.makes(a.Part) {
			count(a.Sum)
		}
	}
	for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
		for _, n := range s.nodes[phase] {
			for _, v := range n.Out {
				if s.idx.lastPhase(v) == graph.Update {
					count(v)
				}
			}
		}
	}
	for _, v := range read(s.nodes[graph.Update]) {
		if v.Kind == graph.Summed || v.Kind == graph.Computed && s.idx.holder[v] == nil {
			count(v)
		}
	}
}

// scratch is the most bytes live at once of what nodes make and use only among
// themselves, run in order.
func (s *span) scratch(nodes []*graph.Node) int64 {
	here := map[*graph.Node]int{}
	for i, n := range nodes {
		here[n] = i
	}
	ends := make([]int64, len(nodes)+1) // bytes that die after each node
	var live, peak int64
	for i, n := range nodes {
		for _, v := range n.Out {
			if last, inside := s.lastUse(v, i, here); inside {
				live += v.Meta.Bytes()
				ends[last] += v.Meta.Bytes()
			}
		}
		peak = max(peak, live)
		live -= ends[i]
	}
	return peak
}

// lastUse is the place of the last reader of v, made at place i; inside is
// false if v is visible outside these nodes.
func (s *span) lastUse(v *graph.Value, i int, here map[*graph.Node]int) (last int, inside bool) {
	if s.idx.output[v] || s.idx.holder[v] != nil {
		return 0, false
	}
	for _, r := range s.idx.readers[v] {
		at, ok := here[r]
		if !ok {
			return 0, false
		}
		i = max(i, at)
	}
	return i, true
}
