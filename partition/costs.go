package partition

import (
	"cmp"
	"iter"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
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

// meter measures neighbouring groups as one stage. Its tables are in use by one trial
// stage at a time: making them for each would take time and memory by the size of the
// graph.
type meter struct {
	*grouped
	inside marks                // values made and read within one unit of the trial stage
	seen   marks                // values
	here   *table[int]          // node → its index in the unit
	memory *table[*graph.Value] // value → the value whose memory it is in
	last   *table[int]          // memory → the index of the node that uses it last
}

func newMeter(g *grouped) *meter {
	values := len(g.idx.g.Values)
	return &meter{g, newMarks(values), newMarks(values), newTable[int](g.idx.ids), newTable[*graph.Value](values), newTable[int](values)}
}

// trialStage is a stage on trial, made of groups lo to hi-1.
type trialStage struct {
	*meter
	lo, hi int
	units  []unit
	bare   bool // for scratch: a reshaped value of another unit takes no memory
}

func newTrial(g *meter, lo, hi int) *trialStage {
	g.inside.clear()
	return &trialStage{meter: g, lo: lo, hi: hi, units: g.units(lo, hi)}
}

func (s *trialStage) has(group int) bool { return group >= s.lo && group < s.hi }

func (s *trialStage) makes(v *graph.Value) bool {
	return v.Kind == graph.Computed && s.has(s.pl.node[v.Node.ID])
}

// makesFor reports whether v is made here in that very phase.
func (s *trialStage) makesFor(v *graph.Value, phase graph.Phase) bool {
	return s.makes(v) && v.Node.Phase == phase
}

// each walks the stage's nodes of some phases, group by group.
func (s *trialStage) each(phases ...graph.Phase) iter.Seq[*graph.Node] {
	return func(yield func(*graph.Node) bool) {
		for _, x := range s.groups[s.lo:s.hi] {
			for _, phase := range phases {
				for _, n := range stop.Each(s.idx.stop, x.nodes[phase]) {
					if !yield(n) {
						return
					}
				}
			}
		}
	}
}

// measure is pass 2: the cost of groups lo to hi-1 as one stage. skip is the
// variables and inputs that the device has already for another stage.
func (g *meter) measure(lo, hi int, skip map[*graph.Value]bool) (f footprint, err error) {
	s := newTrial(g, lo, hi)
	for _, x := range g.groups[lo:hi] {
		f.flops += x.flops
		f.recomputed += x.recomputed
		f.parameters += x.parameters
	}
	for _, r := range s.units {
		f.fixed[device.Scratch] = max(f.fixed[device.Scratch], s.scratch(r.nodes))
	}
	for _, count := range []func(){func() { s.variables(&f, skip) }, func() { s.activations(&f) }, func() { s.gradients(&f) }} {
		if err := g.idx.stop.Err(); err != nil {
			return f, err
		}
		count()
	}
	return f, g.idx.stop.Err()
}

// variables counts the variables that are read or assigned here, even if another
// stage owns them, and the inputs of a whole step.
func (s *trialStage) variables(f *footprint, skip map[*graph.Value]bool) {
	for v := range s.uses() {
		if !skip[v] {
			f.fixed[s.idx.usage(v)] += s.idx.wholeStep(v)
		}
	}
}

// uses walks the variables and inputs that the stage's nodes read or assign, each once.
func (s *trialStage) uses() iter.Seq[*graph.Value] {
	return func(yield func(*graph.Value) bool) {
		s.seen.clear()
		is := func(v *graph.Value) bool {
			return v != nil && (v.Kind == graph.Input || v.Kind == graph.Variable) && s.seen.add(v.ID)
		}
		for n := range s.each(graph.Forward, graph.Backward, graph.Update) {
			for _, v := range n.In {
				if is(v) && !yield(v) {
					return
				}
			}
			for _, v := range n.Out {
				if h := s.idx.variable[v.ID]; is(h) && !yield(h) {
					return
				}
			}
		}
	}
}

// keeps reports whether the stage keeps a gradient from B to W.
func (s *trialStage) keeps(v *graph.Value) bool {
	return v.Kind == graph.Computed && v.Node.Phase == graph.Backward && s.kept.has(v.ID)
}

// activations counts the values that forward makes for backward and B for W, once
// per microbatch in flight, and the values that cross to and from other groups.
func (s *trialStage) activations(f *footprint) {
	s.seen.clear()
	count := func(v *graph.Value, crosses bool) {
		if v.Kind != graph.Computed || s.inside.has(v.ID) || !s.seen.add(v.ID) {
			return
		}
		switch last := s.idx.lastPhase(v); {
		case v.Node.Phase == graph.Forward && last == graph.Backward, s.keeps(v):
			f.perFlight += v.Meta.Bytes()
		case crosses && last != graph.Update:
			f.fixed[device.Activation] += v.Meta.Bytes()
		}
	}
	for n := range s.each(graph.Forward, graph.Backward) {
		for _, v := range n.In {
			if s.makesFor(v, n.Phase) && !s.keeps(v) {
				continue
			}
			comes := v.Kind == graph.Computed && !s.makes(v)
			if comes && !s.seen.has(v.ID) {
				f.bytesIn += v.Meta.Bytes()
			}
			count(v, comes)
		}
	}
	for n := range s.each(graph.Forward, graph.Backward) {
		for _, v := range n.Out {
			if s.leaves(v) {
				count(v, true)
			}
		}
	}
}

// leaves reports whether another group reads v.
func (s *trialStage) leaves(v *graph.Value) bool {
	for _, r := range s.idx.readers[v.ID] {
		if !s.has(s.pl.node[r.ID]) {
			return true
		}
	}
	return false
}

// gradients counts the sums kept here, of a tree all that there are at once, and the values that the update reads
// from other segments.
func (s *trialStage) gradients(f *footprint) {
	s.seen.clear()
	count := func(v *graph.Value) {
		switch {
		case s.inside.has(v.ID) || !s.seen.add(v.ID):
		case v.Kind == graph.Summed && s.makes(s.idx.part[v.ID]):
			f.fixed[device.Grad] += v.Meta.Bytes() * s.idx.partialSums()
		default:
			f.fixed[device.Grad] += v.Meta.Bytes()
		}
	}
	for n := range s.each(graph.Forward, graph.Backward) {
		for _, v := range n.Out {
			for _, a := range s.idx.accums[v.ID] {
				count(s.idx.g.Accums[a].Sum)
			}
			if s.idx.lastPhase(v) == graph.Update {
				count(v)
			}
		}
	}
	for n := range s.each(graph.Update) {
		for _, v := range n.In {
			if v.Kind == graph.Summed || v.Kind == graph.Computed && s.idx.variable[v.ID] == nil && !s.makesFor(v, graph.Update) {
				count(v)
			}
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
func (s *trialStage) scratch(unit []*graph.Node) int64 {
	s.findMemories(unit)
	ends := make([]int64, len(unit)+1)
	var live, peak int64
	for i, n := range stop.Each(s.idx.stop, unit) {
		at := aliasOf(n)
		for o, v := range n.Out {
			if s.memoryOf(v) != v {
				continue
			}
			if at != nil && at[o] >= 0 {
				in := s.memoryOf(n.In[at[o]])
				if in != nil && s.lastUse(in) == i && in.Meta.Bytes() == v.Meta.Bytes() && s.once(n, in) {
					ends[i] -= v.Meta.Bytes() // handed on
					live -= v.Meta.Bytes()
				}
			}
			live += v.Meta.Bytes()
			ends[s.lastUse(v)] += v.Meta.Bytes()
		}
		peak = max(peak, live)
		live -= ends[i]
	}
	return peak
}

// findMemories fills in memory and last for the values inside a unit.
func (s *trialStage) findMemories(unit []*graph.Node) {
	s.here.clear()
	s.memory.clear()
	s.last.clear()
	for i, n := range unit {
		s.here.set(n.ID, i)
	}
	for i, n := range stop.Each(s.idx.stop, unit) {
		for _, v := range n.Out {
			end, inside := s.lastReader(v, i)
			if !inside {
				continue
			}
			s.inside.add(v.ID)
			mem := v
			if n.Op.Kind() == "reshape" {
				if mem = s.memoryOf(n.In[0]); mem == nil && s.bare {
					continue
				}
				mem = cmp.Or(mem, v)
			}
			s.memory.set(v.ID, mem)
			s.last.set(mem.ID, max(s.lastUse(mem), end))
		}
	}
}

// memoryOf is the value whose memory v is in; nil if v is not inside the unit.
func (s *trialStage) memoryOf(v *graph.Value) *graph.Value {
	mem, _ := s.memory.get(v.ID)
	return mem
}

// lastUse is the index of the node that uses a memory last, 0 if none is known.
func (s *trialStage) lastUse(mem *graph.Value) int {
	i, _ := s.last.get(mem.ID)
	return i
}

// once reports whether a node reads the memory mem by exactly one input.
func (s *trialStage) once(n *graph.Node, mem *graph.Value) bool {
	count := 0
	for _, v := range n.In {
		if s.memoryOf(v) == mem {
			count++
		}
	}
	return count == 1
}

// lastReader is the index of the last reader of v, which node i makes; inside is
// false if v is visible outside the unit.
func (s *trialStage) lastReader(v *graph.Value, i int) (last int, inside bool) {
	if s.idx.output[v.ID] || s.idx.variable[v.ID] != nil {
		return 0, false
	}
	for _, r := range s.idx.readers[v.ID] {
		at, ok := s.here.get(r.ID)
		if !ok {
			return 0, false
		}
		i = max(i, at)
	}
	return i, true
}
