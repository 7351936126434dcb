package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// Plan is a graph as steps over storages.
type Plan struct {
	Graph     *graph.Graph
	Alias     []int // per output: the input whose memory it takes over, or -1
	Steps     []Step
	TempBytes int64 // bytes of the scratch region that the temporaries take together

	temps []*Storage             // in the scratch region
	of    *graph.Table[*Storage] // nil of values that stay inside a cluster
	ins   []*Storage             // per input
	align int64                  // of temporaries, in bytes
	stop  *stop.Check            // passes end early once it is done
}

// Options adapt plans to a kind of device.
type Options struct {
	Align int64 // temporaries begin at multiples of so many bytes
	Alone bool  // each node is a step of its own
}

// New plans a graph.
func New(g *graph.Graph, o device.CompileOptions, kind Options) (*Plan, error) {
	p := &Plan{Graph: g, Alias: o.Alias, of: graph.NewTable[*Storage](g), align: kind.Align, stop: stop.When(o.Stop)}
	if err := p.checkAlias(); err != nil {
		return nil, err
	}
	var cuts *fuse.Cuts
	for _, pass := range []func() error{
		func() (err error) {
			cuts, err = cutsOf(g, p.Alias, o.CheckFinite || kind.Alone, p.stop.Err)
			return err
		},
		func() error { return p.assignValues(cuts.Clusters) }, p.assignOutputs,
		func() error { return p.order(o.CheckFinite) }, p.mergeTemps,
		func() (err error) { p.TempBytes, err = layout(p.temps, p.align, p.stop); return err },
		func() error { return p.setUses(o.CheckFinite) },
	} {
		if err := cmp.Or(pass(), p.stop.Err()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// cutsOf cuts a graph into clusters: each node alone if asked.
func cutsOf(g *graph.Graph, alias []int, alone bool, ask func() error) (*fuse.Cuts, error) {
	if alone {
		return fuse.Alone(g), nil
	}
	return fuse.CutUntil(g, alias, ask)
}

// mergeTemps finds the lives of the temporaries, and merges those that are
// computed in place.
func (p *Plan) mergeTemps() error {
	setLifetimes(p.Steps)
	p.temps = mergeInPlace(p.Steps, p.temps, p.stop)
	return nil
}

// checkAlias makes alias as long as the outputs, and refuses donations that
// cannot be.
func (p *Plan) checkAlias() error {
	g := p.Graph
	if p.Alias == nil {
		p.Alias = slices.Repeat([]int{-1}, len(g.Outputs))
	}
	if len(p.Alias) != len(g.Outputs) {
		return fmt.Errorf("BUG: %d aliases for %d outputs", len(p.Alias), len(g.Outputs))
	}
	taken := map[int]bool{}
	for k, j := range p.Alias {
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
func (p *Plan) assignValues(clusters []*fuse.Cluster) error {
	for j, v := range stop.Each(p.stop, p.Graph.Inputs) {
		of := p.of.At(v)
		if *of != nil {
			return fmt.Errorf("BUG: %v is an input twice", v)
		}
		s := &Storage{Class: Input, Index: j, Size: v.Meta.Bytes()}
		*of = s
		p.ins = append(p.ins, s)
	}
	inside := graph.NewTable[bool](p.Graph)
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
func (p *Plan) assignCluster(c *fuse.Cluster) error {
	st := Step{Cluster: c, In: make([]*Storage, 0, len(c.In)), Out: make([]*Storage, 0, len(c.Out))}
	for _, v := range c.In {
		s := *p.of.At(v)
		if s == nil {
			return fmt.Errorf("BUG: %s reads %v, which is neither an input nor computed before", c.Describe(), v)
		}
		st.In = append(st.In, s)
	}
	view := fuse.IsView(c.Nodes[0])
	for _, guard := range c.When {
		s := *p.of.At(guard.Value)
		if s == nil && !view {
			return fmt.Errorf("BUG: %s waits for %v, which is neither an input nor computed before", c.Describe(), guard.Value)
		}
		st.When = append(st.When, Guard{s, guard.Else})
	}
	for _, v := range c.Out {
		of := p.of.At(v)
		if *of != nil {
			return fmt.Errorf("BUG: %v is computed twice or is an input too", v)
		}
		if view {
			*of = st.In[0]
			continue
		}
		s := &Storage{Class: Temporary, Size: v.Meta.Bytes(), writer: len(p.Steps)}
		*of = s
		p.temps = append(p.temps, s)
		st.Out = append(st.Out, s)
	}
	if !view {
		p.Steps = append(p.Steps, st)
	}
	return nil
}

// assignOutputs brings the outputs into the caller's buffers: computed there if
// possible, otherwise copied there at the end.
func (p *Plan) assignOutputs() error {
	for k, v := range stop.Each(p.stop, p.Graph.Outputs) {
		s := *p.of.At(v)
		if s == nil {
			return fmt.Errorf("BUG: output %v is neither an input nor computed", v)
		}
		j := p.Alias[k]
		if j >= 0 && s == p.ins[j] {
			continue // handed through in its own memory
		}
		if s.Class == Temporary && p.canCompute(s, j) {
			s.Class, s.Index = Output, k
			continue
		}
		to := &Storage{Class: Output, Index: k, Size: s.Size}
		p.Steps = append(p.Steps, Step{In: []*Storage{s}, Out: []*Storage{to}})
	}
	p.temps = slices.DeleteFunc(p.temps, func(s *Storage) bool { return s.Class != Temporary })
	return nil
}

// canCompute tells whether the step that writes s may write it in the memory of
// donated input j; -1 means none. It may not if the step reads that input in a
// way that does not work in place.
func (p *Plan) canCompute(s *Storage, j int) bool {
	if j < 0 {
		return true
	}
	st := &p.Steps[s.writer]
	at := st.alias(slices.Index(st.Out, s))
	for a, in := range st.reads() {
		if in == p.ins[j] && !slices.Contains(at, a) {
			return false
		}
	}
	return true
}

// order puts the steps in an order that keeps donated inputs until all their
// readers have run; if steps are checked, until all have run that can fail before.
func (p *Plan) order(checked bool) (err error) {
	o := &orderer{graph: p.Graph, alias: p.Alias, ins: p.ins, steps: p.Steps, stop: p.stop, checked: checked}
	p.Steps, err = o.order()
	return err
}
