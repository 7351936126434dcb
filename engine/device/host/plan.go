package host

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// plan is a graph as steps over storages.
type plan struct {
	graph     *graph.Graph
	alias     []int // per output: the input whose memory it takes over, or -1
	steps     []step
	temps     []*storage             // in the scratch region
	of        *graph.Table[*storage] // nil of values that stay inside a cluster
	ins       []*storage             // per input
	tempBytes int64                  // bytes that the temporaries take together

	stop *stop.Check // passes end early once it is done
}

// newPlan runs the passes, in order.
func newPlan(g *graph.Graph, o device.CompileOptions) (*plan, error) {
	p := &plan{graph: g, alias: o.Alias, of: graph.NewTable[*storage](g), stop: stop.When(o.Stop)}
	if err := p.checkAlias(); err != nil {
		return nil, err
	}
	var cuts *fuse.Cuts
	for _, pass := range []func() error{
		func() (err error) { cuts, err = cutsOf(g, p.alias, o.CheckFinite, p.stop.Err); return err },
		func() error { return p.assignValues(cuts.Clusters) }, p.assignOutputs, p.order, p.mergeTemps,
		func() (err error) { p.tempBytes, err = layout(p.temps, p.stop); return err },
	} {
		if err := cmp.Or(pass(), p.stop.Err()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// cutsOf cuts a graph into clusters: each node alone if every output is to be
// checked.
func cutsOf(g *graph.Graph, alias []int, alone bool, ask func() error) (*fuse.Cuts, error) {
	if alone {
		return fuse.Alone(g), nil
	}
	return fuse.CutUntil(g, alias, ask)
}

// mergeTemps finds the lives of the temporaries, and merges those that are
// computed in place.
func (p *plan) mergeTemps() error {
	setLifetimes(p.steps)
	p.temps = mergeInPlace(p.steps, p.temps, p.stop)
	return nil
}

// checkAlias makes alias as long as the outputs, and refuses donations that
// cannot be.
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

// assignValues gives values their storage and makes the steps. A view shares
// its input's storage and is no step. A value that stays inside a cluster has
// no storage.
func (p *plan) assignValues(clusters []*fuse.Cluster) error {
	for j, v := range stop.Each(p.stop, p.graph.Inputs) {
		of := p.of.At(v)
		if *of != nil {
			return fmt.Errorf("BUG: %v is an input twice", v)
		}
		s := &storage{class: ofInput, index: j, size: v.Meta.Bytes()}
		*of = s
		p.ins = append(p.ins, s)
	}
	inside := graph.NewTable[bool](p.graph)
	for _, c := range stop.Each(p.stop, clusters) {
		for _, v := range c.Inner {
			*inside.At(v) = true
		}
		if fuse.IsView(c.Nodes[0]) && *inside.At(c.In[0]) {
			*inside.At(c.Out[0]) = true
			continue
		}
		if err := p.assignCluster(c); err != nil {
			return err
		}
	}
	return nil
}

// assignCluster gives the outputs of a cluster their storage.
func (p *plan) assignCluster(c *fuse.Cluster) error {
	st := step{cluster: c, in: make([]*storage, 0, len(c.In)), out: make([]*storage, 0, len(c.Out))}
	for _, v := range c.In {
		s := *p.of.At(v)
		if s == nil {
			return fmt.Errorf("BUG: %s reads %v, which is neither an input nor computed before", describe(c), v)
		}
		st.in = append(st.in, s)
	}
	view := fuse.IsView(c.Nodes[0])
	for _, v := range c.Out {
		of := p.of.At(v)
		if *of != nil {
			return fmt.Errorf("BUG: %v is computed twice or is an input too", v)
		}
		if view {
			*of = st.in[0]
			continue
		}
		s := &storage{class: ofTemp, size: v.Meta.Bytes(), writer: len(p.steps)}
		*of = s
		p.temps = append(p.temps, s)
		st.out = append(st.out, s)
	}
	if !view {
		p.steps = append(p.steps, st)
	}
	return nil
}

// assignOutputs brings the outputs into the caller's buffers: computed there if
// possible, otherwise copied there at the end.
func (p *plan) assignOutputs() error {
	for k, v := range stop.Each(p.stop, p.graph.Outputs) {
		s := *p.of.At(v)
		if s == nil {
			return fmt.Errorf("BUG: output %v is neither an input nor computed", v)
		}
		j := p.alias[k]
		if j >= 0 && s == p.ins[j] {
			continue // handed through in its own memory
		}
		if s.class == ofTemp && p.canCompute(s, j) {
			s.class, s.index = ofOutput, k
			continue
		}
		to := &storage{class: ofOutput, index: k, size: s.size}
		p.steps = append(p.steps, step{in: []*storage{s}, out: []*storage{to}})
	}
	p.temps = slices.DeleteFunc(p.temps, func(s *storage) bool { return s.class != ofTemp })
	return nil
}

// canCompute tells whether the step that writes s may write it in the memory of
// donated input j; -1 means none. It may not if the step reads that input in a
// way that does not work in place.
func (p *plan) canCompute(s *storage, j int) bool {
	if j < 0 {
		return true
	}
	st := &p.steps[s.writer]
	at := st.alias(slices.Index(st.out, s))
	for a, in := range st.in {
		if in == p.ins[j] && !slices.Contains(at, a) {
			return false
		}
	}
	return true
}

// order puts the steps in an order that keeps donated inputs until all their
// readers have run.
func (p *plan) order() (err error) {
	o := &orderer{graph: p.graph, alias: p.alias, ins: p.ins, steps: p.steps, stop: p.stop}
	p.steps, err = o.order()
	return err
}
