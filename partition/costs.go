package partition

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// footprint is the cost of neighbouring groups as one stage of a device.
type footprint struct {
	flops      int64                   // F and B, per microbatch
	recomputed int64                   // of these, in nodes that compute a value a second time
	parameters int64                   // elements of the parameters owned
	bytesIn    int64                   // per microbatch, made by other groups
	fixed      [device.NumUsages]int64 // bytes whatever is in flight
	perFlight  int64                   // bytes of activations per microbatch in flight
}

// memory is bytes by usage with that many microbatches in flight.
func (f footprint) memory(inFlight int) [device.NumUsages]int64 {
	m := f.fixed
	m[device.Activation] += f.perFlight * int64(inFlight)
	return m
}

// trialStage is a stage on trial, made of groups lo to hi-1: its nodes by phase, in
// graph order, and its units.
type trialStage struct {
	idx    *index
	pl     *placement
	lo, hi int
	nodes  [3][]*graph.Node
	units  []unit
	inside map[*graph.Value]bool // made and read within one unit
}

func newTrial(idx *index, pl *placement, lo, hi int) *trialStage {
	s := &trialStage{idx: idx, pl: pl, lo: lo, hi: hi, units: idx.units(pl, lo, hi), inside: map[*graph.Value]bool{}}
	for _, n := range idx.g.Nodes {
		if s.has(pl.node[n.ID]) {
			s.nodes[n.Phase] = append(s.nodes[n.Phase], n)
		}
	}
	return s
}

func (s *trialStage) has(group int) bool { return group >= s.lo && group < s.hi }

func (s *trialStage) makes(v *graph.Value) bool {
	return v.Kind == graph.Computed && s.has(s.pl.node[v.Node.ID])
}

// measure is pass 2: the cost of groups lo to hi-1 as one stage. skip is the
// variables and inputs that the device has already for another stage. stop is
// asked now and then; its error ends measuring.
func measure(idx *index, pl *placement, lo, hi int, skip map[*graph.Value]bool, stop func() error) (f footprint, err error) {
	s := newTrial(idx, pl, lo, hi)
	if err := stop(); err != nil {
		return f, err
	}
	for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
		for _, n := range s.nodes[phase] {
			f.flops += n.Cost().Flops
			if n.Recomputed {
				f.recomputed += n.Cost().Flops
			}
		}
	}
	for _, r := range s.units {
		f.fixed[device.Scratch] = max(f.fixed[device.Scratch], s.scratch(r.nodes))
	}
	for _, count := range []func(){func() { s.variables(&f, skip) }, func() { s.activations(&f) }, func() { s.gradients(&f) }} {
		if err := stop(); err != nil {
			return f, err
		}
		count()
	}
	return f, nil
}

// variables counts the variables that are read or assigned here, even if another
// stage owns them, and the inputs of a whole step.
func (s *trialStage) variables(f *footprint, skip map[*graph.Value]bool) {
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
				if h := s.idx.variable[v]; h != nil {
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

// activations counts the values that forward makes for backward, once per
// microbatch in flight, and the values that cross to and from other groups.
func (s *trialStage) activations(f *footprint) {
	seen := map[*graph.Value]bool{}
	count := func(v *graph.Value, crosses bool) {
		if seen[v] || v.Kind != graph.Computed || s.inside[v] {
			return
		}
		seen[v] = true
		switch last := s.idx.lastPhase(v); {
		case v.Node.Phase == graph.Forward && last == graph.Backward:
			f.perFlight += v.Meta.Bytes()
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
func (s *trialStage) leaves(v *graph.Value) bool {
	for _, r := range s.idx.readers[v] {
		if !s.has(s.pl.node[r.ID]) {
			return true
		}
	}
	return false
}

// gradients counts the sums kept here, and the values that the update reads
// from other segments.
func (s *trialStage) gradients(f *footprint) {
	seen := map[*graph.Value]bool{}
	count := func(v *graph.Value) {
		if !seen[v] && !s.inside[v] {
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
		if v.Kind == graph.Summed || v.Kind == graph.Computed && s.idx.variable[v] == nil {
			count(v)
		}
	}
}

// scratch is the most bytes live at once of the values that nodes of a unit
// make and use only among themselves. Reshaped values share memory. An op that
// may compute in place of its input takes over that memory, if the input's last
// use is this one.
//
// Going through the nodes, live is the bytes in use and ends[i] the bytes that
// die after node i.
func (s *trialStage) scratch(nodes []*graph.Node) int64 {
	memory, last := s.memories(nodes)
	ends := make([]int64, len(nodes)+1)
	var live, peak int64
	for i, n := range nodes {
		at := aliasOf(n)
		for o, v := range n.Out {
			if memory[v] != v {
				continue
			}
			if at != nil && at[o] >= 0 {
				in := memory[n.In[at[o]]]
				if in != nil && last[in] == i && in.Meta.Bytes() == v.Meta.Bytes() && s.once(n, in, memory) {
					ends[i] -= v.Meta.Bytes() // handed on
					live -= v.Meta.Bytes()
				}
			}
			live += v.Meta.Bytes()
			ends[last[v]] += v.Meta.Bytes()
		}
		peak = max(peak, live)
		live -= ends[i]
	}
	return peak
}

// memories is, for each value inside a unit, the value whose memory it is in,
// and for each memory the index of the node that uses it last.
func (s *trialStage) memories(nodes []*graph.Node) (memory map[*graph.Value]*graph.Value, last map[*graph.Value]int) {
	here := map[*graph.Node]int{}
	for i, n := range nodes {
		here[n] = i
	}
	memory, last = map[*graph.Value]*graph.Value{}, map[*graph.Value]int{}
	for i, n := range nodes {
		for _, v := range n.Out {
			end, inside := s.lastUse(v, i, here)
			if !inside {
				continue
			}
			s.inside[v] = true
			memory[v] = v
			if n.Op.Kind() == "reshape" && memory[n.In[0]] != nil {
				memory[v] = memory[n.In[0]]
			}
			last[memory[v]] = max(last[memory[v]], end)
		}
	}
	return memory, last
}

// once reports whether a node reads the memory mem by exactly one input.
func (s *trialStage) once(n *graph.Node, mem *graph.Value, memory map[*graph.Value]*graph.Value) bool {
	count := 0
	for _, v := range n.In {
		if memory[v] == mem {
			count++
		}
	}
	return count == 1
}

// aliasOf is, per output of a node, the input it may be computed in; nil if
// its op names none.
func aliasOf(n *graph.Node) []int {
	if a, ok := n.Op.(graph.Aliaser); ok {
		if at := a.Alias(); len(at) == len(n.Out) {
			return at
		}
	}
	return nil
}

// lastUse is the index of the last reader of v, which node i makes; inside is
// false if v is visible outside these nodes.
func (s *trialStage) lastUse(v *graph.Value, i int, here map[*graph.Node]int) (last int, inside bool) {
	if s.idx.output[v] || s.idx.variable[v] != nil {
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
