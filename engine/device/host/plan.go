package host

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// place says whose memory a storage is in.
type place uint8

const (
	inInput place = iota
	inOutput
	inTemp
)

// storage is memory that one or several values stand in: a value and its
// reshapes, and values computed in place.
type storage struct {
	place       place
	index       int // of the graph's input or output
	size        int64
	step        int   // which step of the plan writes it, before they are sorted
	first, last int   // for temporaries: the steps that write it first and use it last
	off         int64 // for temporaries: offset in the scratch region
}

// step is one kernel of the plan, or a copy where cluster is nil.
type step struct {
	cluster *fuse.Cluster
	in, out []*storage
}

// plan is a graph as steps over storages.
type plan struct {
	graph *graph.Graph
	alias []int // per output: the input whose memory it takes over, or -1
	steps []step
	temps []*storage
	of    map[*graph.Value]*storage // nil for what stays inside a cluster
	ins   []*storage                // per input
	arena int64                     // bytes of temporaries
}

// newPlan runs the passes, in order.
func newPlan(g *graph.Graph, o device.CompileOptions) (*plan, error) {
	p := &plan{graph: g, alias: o.Alias, of: map[*graph.Value]*storage{}}
	if err := p.checkAlias(); err != nil {
		return nil, err
	}
	stop := o.Stop
	if stop == nil {
		stop = func() error { return nil }
	}
	cuts := fuse.Alone(g)
	if !o.CheckFinite {
		cuts = fuse.Cut(g, p.alias)
	}
	for _, pass := range []func() error{
		stop, func() error { return p.placeValues(cuts.Clusters) }, p.placeOutputs, p.order, stop} {
		if err := pass(); err != nil {
			return nil, err
		}
	}
	p.lifetimes()
	p.mergeInPlace()
	p.arena = layout(p.temps)
	return p, nil
}

// checkAlias makes alias as long as the outputs, and refuses what cannot be.
func (p *plan) checkAlias() error {
	g := p.graph
	if p.alias == nil {
		p.alias = slices.Repeat([]int{-1}, len(g.Outputs))
	}
	if len(p.alias) != len(g.Outputs) {
		return fmt.Errorf("BUG: %d aliases for %d outputs", len(p.alias), len(g.Outputs))
	}
	taken := map[int]bool{}
	for k, j := range p.alias {
		if j < 0 {
			continue
		}
		if j >= len(g.Inputs) || taken[j] {
			return fmt.Errorf("BUG: output %d takes over input %d, which does not exist or is taken over twice", k, j)
		}
		taken[j] = true
		if !g.Inputs[j].Meta.Equal(g.Outputs[k].Meta) {
			return fmt.Errorf("BUG: output %v cannot take over input %v: their metadata differ", g.Outputs[k], g.Inputs[j])
		}
	}
	return nil
}

// placeValues gives values their storage and makes the steps. A view shares
// its input's storage and is no step; what stays inside a cluster has none.
func (p *plan) placeValues(clusters []*fuse.Cluster) error {
	for j, v := range p.graph.Inputs {
		if p.of[v] != nil {
			return fmt.Errorf("BUG: %v is an input twice", v)
		}
		s := &storage{place: inInput, index: j, size: v.Meta.Bytes()}
		p.of[v] = s
		p.ins = append(p.ins, s)
	}
	inside := map[*graph.Value]bool{}
	for _, c := range clusters {
		for _, v := range c.Inner {
			inside[v] = true
		}
		if fuse.IsView(c.Nodes[0]) && inside[c.In[0]] {
			inside[c.Out[0]] = true
			continue
		}
		if err := p.placeCluster(c); err != nil {
			return err
		}
	}
	return nil
}

// placeCluster places what a cluster writes.
func (p *plan) placeCluster(c *fuse.Cluster) error {
	st := step{cluster: c}
	for _, v := range c.In {
		s := p.of[v]
		if s == nil {
			return fmt.Errorf("BUG: %s reads %v, which is neither an input nor computed before", where(c), v)
		}
		st.in = append(st.in, s)
	}
	view := fuse.IsView(c.Nodes[0])
	for _, v := range c.Out {
		if p.of[v] != nil {
			return fmt.Errorf("BUG: %v is computed twice or is an input too", v)
		}
		if view {
			p.of[v] = st.in[0]
			continue
		}
		s := &storage{place: inTemp, size: v.Meta.Bytes(), step: len(p.steps)}
		p.of[v] = s
		p.temps = append(p.temps, s)
		st.out = append(st.out, s)
	}
	if !view {
		p.steps = append(p.steps, st)
	}
	return nil
}

// placeOutputs makes outputs stand where the caller wants them: computed there
// where that is possible, otherwise copied there at the end.
func (p *plan) placeOutputs() error {
	for k, v := range p.graph.Outputs {
		s := p.of[v]
		if s == nil {
			return fmt.Errorf("BUG: output %v is neither an input nor computed", v)
		}
		j := p.alias[k]
		if j >= 0 && s == p.ins[j] {
			continue // handed through in its own memory
		}
		if s.place == inTemp && p.canCompute(s, j) {
			s.place, s.index = inOutput, k
			continue
		}
		to := &storage{place: inOutput, index: k, size: s.size}
		p.steps = append(p.steps, step{in: []*storage{s}, out: []*storage{to}})
	}
	p.temps = slices.DeleteFunc(p.temps, func(s *storage) bool { return s.place != inTemp })
	return nil
}

// canCompute reports whether the step that writes s may write in the memory of
// donated input j (-1 for none): it may unless it reads that input elsewhere
// than where its ops work in place.
func (p *plan) canCompute(s *storage, j int) bool {
	if j < 0 {
		return true
	}
	st := &p.steps[s.step]
	at := st.alias(slices.Index(st.out, s))
	for a, in := range st.in {
		if in == p.ins[j] && !slices.Contains(at, a) {
			return false
		}
	}
	return true
}

// alias lists the inputs in whose memory output o may be computed.
func (st *step) alias(o int) []int {
	if st.cluster == nil {
		return nil
	}
	return st.cluster.Alias[o]
}

// order moves the steps that write in a donated input's memory behind all that
// read it, and behind those that may end the launch: what was donated is as it
// was then. Steps keep their order otherwise.
func (p *plan) order() error {
	first := p.firsts()
	before := make([][]int, len(p.steps)) // before[i]: steps that must come first
	moved := false
	for i := range p.steps {
		for _, out := range p.steps[i].out {
			if out.place != inOutput || p.alias[out.index] < 0 {
				continue
			}
			for _, list := range [][]int{first[nil], first[p.ins[p.alias[out.index]]]} {
				for _, r := range list {
					if r != i {
						before[i] = append(before[i], r)
						moved = moved || r > i
					}
				}
			}
		}
	}
	if !moved {
		return nil
	}
	return p.sort(before)
}

// firsts lists the steps that read each donated input, and under nil those that
// may end the launch.
func (p *plan) firsts() map[*storage][]int {
	first := map[*storage][]int{}
	donated := map[*storage]bool{}
	for _, j := range p.alias {
		if j >= 0 {
			donated[p.ins[j]] = true
		}
	}
	for i := range p.steps {
		if p.steps[i].ends() {
			first[nil] = append(first[nil], i)
		}
		for _, s := range p.steps[i].in {
			if donated[s] {
				first[s] = append(first[s], i)
			}
		}
	}
	return first
}

// ends reports whether the step may end the launch on purpose.
func (s *step) ends() bool {
	return s.cluster != nil && slices.ContainsFunc(s.cluster.Nodes, fuse.Ends)
}

// sort is Kahn's topological sort, the earliest free step first.
func (p *plan) sort(before [][]int) error {
	after, missing := p.edges(before)
	var free ints
	for i, n := range missing {
		if n == 0 {
			free = append(free, i)
		}
	}
	var sorted []step
	for len(free) > 0 {
		i := heap.Pop(&free).(int)
		sorted = append(sorted, p.steps[i])
		for _, a := range after[i] {
			if missing[a]--; missing[a] == 0 {
				heap.Push(&free, a)
			}
		}
	}
	if len(sorted) < len(p.steps) {
		return p.cycle(missing)
	}
	p.steps = sorted
	return nil
}

// edges adds what each step reads to before, and returns the steps that come
// after each, and how many come before it.
func (p *plan) edges(before [][]int) (after [][]int, missing []int) {
	written := map[*storage]int{}
	for i, st := range p.steps {
		for _, s := range st.out {
			written[s] = i
		}
	}
	after, missing = make([][]int, len(p.steps)), make([]int, len(p.steps))
	for i, st := range p.steps {
		for _, s := range st.in {
			if w, ok := written[s]; ok {
				before[i] = append(before[i], w)
			}
		}
		for _, b := range before[i] {
			after[b] = append(after[b], i)
			missing[i]++
		}
	}
	return after, missing
}

// cycle names a donated input that is read after it has been overwritten.
func (p *plan) cycle(missing []int) error {
	for i, n := range missing {
		if n == 0 {
			continue
		}
		for _, s := range p.steps[i].out {
			if s.place == inOutput && p.alias[s.index] >= 0 {
				return fmt.Errorf("BUG: output %v takes over input %v, which is read after the output is known: do not donate it",
					p.graph.Outputs[s.index], p.graph.Inputs[p.alias[s.index]])
			}
		}
	}
	return fmt.Errorf("BUG: the nodes of %s are not in topological order", p.graph.Name)
}

// ints is a heap of numbers, least first.
type ints []int

func (h ints) Len() int           { return len(h) }
func (h ints) Less(i, j int) bool { return h[i] < h[j] }
func (h ints) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ints) Push(x any)        { *h = append(*h, x.(int)) }
func (h *ints) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}

// lifetimes sets when each temporary is written first and used last.
func (p *plan) lifetimes() {
	for i := range p.steps {
		for _, s := range p.steps[i].out {
			s.first, s.last = i, i
		}
		for _, s := range p.steps[i].in {
			s.last = i
		}
	}
}

// mergeInPlace computes values in the memory of an input that dies there,
// where the op allows it and nothing else of the step reads that memory.
func (p *plan) mergeInPlace() {
	into := map[*storage]*storage{}
	resolve := func(list []*storage) {
		for i, s := range list {
			if t := into[s]; t != nil {
				list[i] = t
			}
		}
	}
	for i := range p.steps {
		st := &p.steps[i]
		resolve(st.in)
		for o, s := range st.out {
			if t := st.free(o, i); t != nil && s.place == inTemp {
				t.last, into[s], st.out[o] = s.last, t, t
			}
		}
	}
	p.temps = slices.DeleteFunc(p.temps, func(s *storage) bool { return into[s] != nil })
}

// free is the temporary in whose memory output o of this, step i, can be
// computed; nil if there is none.
func (st *step) free(o, i int) *storage {
	for _, a := range st.alias(o) {
		t := st.in[a]
		if t.place == inTemp && t.last == i && t.size == st.out[o].size && count(st.in, t) == 1 && !slices.Contains(st.out, t) {
			return t
		}
	}
	return nil
}

// count is how often s is in list.
func count(list []*storage, s *storage) int {
	n := 0
	for _, t := range list {
		if t == s {
			n++
		}
	}
	return n
}
