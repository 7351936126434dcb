package footprint

import (
	"cmp"
	"iter"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// Stage is the cost of neighbouring groups as one stage of a device.
type Stage struct {
	Flops      int64                   // F and B, per microbatch
	Recomputed int64                   // of these, in nodes that compute a value a second time
	Parameters int64                   // elements of the parameters owned
	bytesIn    int64                   // per microbatch, made by other groups
	Fixed      [device.NumUsages]int64 // bytes whatever is in flight
	PerFlight  int64                   // bytes of activations per microbatch in flight
}

// Memory is bytes by usage with that many microbatches in flight.
func (f Stage) Memory(inFlight int) [device.NumUsages]int64 {
	m := f.Fixed
	m[device.Activation] += f.PerFlight * int64(inFlight)
	return m
}

// Meter measures neighbouring groups as one stage. Its tables are in use by one trial
// stage at a time: making them for each would take time and memory by the size of the
// graph.
type Meter struct {
	*segment.Groups
	inside nodes.Marks                // values made and read within one unit of the trial stage
	seen   nodes.Marks                // values
	here   *nodes.Table[int]          // node → its index in the unit
	memory *nodes.Table[*graph.Value] // value → the value whose memory it is in
	last   *nodes.Table[int]          // memory → the index of the node that uses it last
}

// NewMeter makes the tables for a graph.
func NewMeter(g *segment.Groups) *Meter {
	values := len(g.Index.Graph.Values)
	return &Meter{g, nodes.NewMarks(values), nodes.NewMarks(values), nodes.NewTable[int](g.Index.IDs), nodes.NewTable[*graph.Value](values), nodes.NewTable[int](values)}
}

// trialStage is a stage on trial, made of groups lo to hi-1.
type trialStage struct {
	*Meter
	lo, hi int
	units  []segment.Unit
	bare   bool // for scratch: a reshaped value of another unit takes no memory
}

func newTrial(g *Meter, lo, hi int) *trialStage {
	g.inside.Clear()
	return &trialStage{Meter: g, lo: lo, hi: hi, units: g.Units(lo, hi)}
}

func (s *trialStage) has(group int) bool { return group >= s.lo && group < s.hi }

func (s *trialStage) makes(v *graph.Value) bool {
	return v.Kind == graph.Computed && s.has(s.Placement.Node[v.Node.ID])
}

// makesFor reports whether v is made here in that very phase.
func (s *trialStage) makesFor(v *graph.Value, phase graph.Phase) bool {
	return s.makes(v) && v.Node.Phase == phase
}

// each walks the stage's nodes of some phases, group by group.
func (s *trialStage) each(phases ...graph.Phase) iter.Seq[*graph.Node] {
	return func(yield func(*graph.Node) bool) {
		for _, x := range s.All[s.lo:s.hi] {
			for _, phase := range phases {
				for _, n := range stop.Each(s.Index.Stop, x.Nodes[phase]) {
					if !yield(n) {
						return
					}
				}
			}
		}
	}
}

// Measure is the cost of groups lo to hi-1 as one stage. skip is the
// variables and inputs that the device has already for another stage.
func (g *Meter) Measure(lo, hi int, skip map[*graph.Value]bool) (f Stage, err error) {
	s := newTrial(g, lo, hi)
	for _, x := range g.All[lo:hi] {
		f.Flops += x.Flops
		f.Recomputed += x.Recomputed
		f.Parameters += x.Parameters
	}
	for _, r := range s.units {
		f.Fixed[device.Scratch] = max(f.Fixed[device.Scratch], s.scratch(r.Nodes))
	}
	for _, count := range []func(){func() { s.variables(&f, skip) }, func() { s.activations(&f) }, func() { s.gradients(&f) }} {
		if err := g.Index.Stop.Err(); err != nil {
			return f, err
		}
		count()
	}
	return f, g.Index.Stop.Err()
}

// variables counts the variables that are read or assigned here, even if another
// stage owns them, and the inputs of a whole step.
func (s *trialStage) variables(f *Stage, skip map[*graph.Value]bool) {
	for v := range s.uses() {
		if !skip[v] {
			f.Fixed[s.Index.Usage(v)] += s.Index.WholeStep(v)
		}
	}
}

// uses walks the variables and inputs that the stage's nodes read or assign, each once.
func (s *trialStage) uses() iter.Seq[*graph.Value] {
	return func(yield func(*graph.Value) bool) {
		s.seen.Clear()
		is := func(v *graph.Value) bool {
			return v != nil && (v.Kind == graph.Input || v.Kind == graph.Variable) && s.seen.Add(v.ID)
		}
		for n := range s.each(graph.Forward, graph.Backward, graph.Update) {
			for _, v := range n.In {
				if is(v) && !yield(v) {
					return
				}
			}
			for _, v := range n.Out {
				if h := s.Index.Variable[v.ID]; is(h) && !yield(h) {
					return
				}
			}
		}
	}
}

// keeps reports whether the stage keeps a gradient from B to W.
func (s *trialStage) keeps(v *graph.Value) bool {
	return v.Kind == graph.Computed && v.Node.Phase == graph.Backward && s.Kept.Has(v.ID)
}

// activations counts the values that forward makes for backward and B for W, once
// per microbatch in flight, and the values that cross to and from other groups.
func (s *trialStage) activations(f *Stage) {
	s.seen.Clear()
	count := func(v *graph.Value, crosses bool) {
		if v.Kind != graph.Computed || s.inside.Has(v.ID) || !s.seen.Add(v.ID) {
			return
		}
		switch last := s.Index.LastPhase(v); {
		case v.Node.Phase == graph.Forward && last == graph.Backward, s.keeps(v):
			f.PerFlight += v.Meta.Bytes()
		case crosses && last != graph.Update:
			f.Fixed[device.Activation] += v.Meta.Bytes()
		}
	}
	for n := range s.each(graph.Forward, graph.Backward) {
		for _, v := range n.In {
			if s.makesFor(v, n.Phase) && !s.keeps(v) {
				continue
			}
			comes := v.Kind == graph.Computed && !s.makes(v)
			if comes && !s.seen.Has(v.ID) {
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
	for _, r := range s.Index.Readers[v.ID] {
		if !s.has(s.Placement.Node[r.ID]) {
			return true
		}
	}
	return false
}

// gradients counts the sums kept here, of a tree all that there are at once, and the values that the update reads
// from other segments.
func (s *trialStage) gradients(f *Stage) {
	s.seen.Clear()
	count := func(v *graph.Value) {
		switch {
		case s.inside.Has(v.ID) || !s.seen.Add(v.ID):
		case v.Kind == graph.Summed && s.makes(s.Index.Part[v.ID]):
			f.Fixed[device.Grad] += v.Meta.Bytes() * s.Index.PartialSums()
		default:
			f.Fixed[device.Grad] += v.Meta.Bytes()
		}
	}
	for n := range s.each(graph.Forward, graph.Backward) {
		for _, v := range n.Out {
			for _, a := range s.Index.Accums[v.ID] {
				count(s.Index.Graph.Accums[a].Sum)
			}
			if s.Index.LastPhase(v) == graph.Update {
				count(v)
			}
		}
	}
	for n := range s.each(graph.Update) {
		for _, v := range n.In {
			if v.Kind == graph.Summed || v.Kind == graph.Computed && s.Index.Variable[v.ID] == nil && !s.makesFor(v, graph.Update) {
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
	for i, n := range stop.Each(s.Index.Stop, unit) {
		at := nodes.AliasOf(n)
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
	s.here.Clear()
	s.memory.Clear()
	s.last.Clear()
	for i, n := range unit {
		s.here.Set(n.ID, i)
	}
	for i, n := range stop.Each(s.Index.Stop, unit) {
		for _, v := range n.Out {
			end, inside := s.lastReader(v, i)
			if !inside {
				continue
			}
			s.inside.Add(v.ID)
			mem := v
			if n.Op.Kind() == "reshape" {
				if mem = s.memoryOf(n.In[0]); mem == nil && s.bare {
					continue
				}
				mem = cmp.Or(mem, v)
			}
			s.memory.Set(v.ID, mem)
			s.last.Set(mem.ID, max(s.lastUse(mem), end))
		}
	}
}

// memoryOf is the value whose memory v is in; nil if v is not inside the unit.
func (s *trialStage) memoryOf(v *graph.Value) *graph.Value {
	mem, _ := s.memory.Get(v.ID)
	return mem
}

// lastUse is the index of the node that uses a memory last, 0 if none is known.
func (s *trialStage) lastUse(mem *graph.Value) int {
	i, _ := s.last.Get(mem.ID)
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
	if s.Index.Output[v.ID] || s.Index.Variable[v.ID] != nil {
		return 0, false
	}
	for _, r := range s.Index.Readers[v.ID] {
		at, ok := s.here.Get(r.ID)
		if !ok {
			return 0, false
		}
		i = max(i, at)
	}
	return i, true
}
