package eager

import (
	"fmt"
	"slices"
	"sync"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// plan is the calls that compute gradients of a trace. A context keeps it for tapes with the
// same trace. Values that it makes are numbered
// after those of the trace.
type plan struct {
	trace   trace
	loss    int
	wrt     []int
	steps   []planned
	results []int // values, per wrt
	values  int   // number of values of the trace and of the plan
	inputs  []int // the values of the trace that it reads, each once

	mu    sync.Mutex
	found int               // times that the plan was asked for
	f     *Function         // of the whole plan, once it is worth it
	parts map[int]*Function // of single results, for traces that read them
}

// planned is a call of a plan.
type planned struct {
	op      graph.Op
	in, out []int // values
}

// plansSize is the most plans that a context keeps. A full list drops all.
const plansSize = 64

// plans are the plans of a context.
type plans struct {
	mu   sync.Mutex
	list map[uint64][]*plan // by the hash of the trace
	size int
}

// find finds or makes the plan for gradients of a trace.
func (p *plans) find(t *trace, loss int, wrt []int) (*plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.list[t.hash] {
		if x.loss == loss && slices.Equal(x.wrt, wrt) && x.trace.equal(t) {
			return x, nil
		}
	}
	x, err := newPlan(t, loss, wrt)
	if err != nil {
		return nil, err
	}
	if p.list == nil || p.size == plansSize {
		p.list, p.size = map[uint64][]*plan{}, 0
	}
	p.list[t.hash] = append(p.list[t.hash], x)
	p.size++
	return x, nil
}

// newPlan differentiates a trace.
func newPlan(t *trace, loss int, wrt []int) (*plan, error) {
	b, values := t.graph()
	of := make([]*graph.Value, len(wrt))
	for i, id := range wrt {
		of[i] = values[id]
	}
	if b.Err() != nil {
		return nil, b.Err()
	}
	from := values[loss]
	parts := b.Gradients(from, b.One(ops.Fill{Meta: from.Meta, Value: 1}), of, ops.AddOp)
	outs := make([]*graph.Value, len(wrt))
	for i, v := range of {
		if len(parts[v]) == 0 && b.Err() == nil {
			return nil, fmt.Errorf("%w: the loss does not depend on tensor %d (%v), or an op between them has no gradient", ErrNoGradient, i, v.Meta)
		}
		outs[i] = sum(b, parts[v])
		b.Output("gradient", outs[i])
	}
	g, err := b.Graph()
	if err != nil {
		return nil, err
	}
	p := &plan{trace: t.clone(), loss: loss, wrt: wrt}
	p.list(g, values, outs)
	return p, nil
}

// list lists, in order, the calls that outs need and the trace does not have.
func (p *plan) list(g *graph.Graph, known, outs []*graph.Value) {
	ids := map[*graph.Value]int{}
	for id, v := range known {
		ids[v] = id
	}
	needed := map[*graph.Value]bool{}
	for _, v := range outs {
		needed[v] = true
	}
	var nodes []*graph.Node
	for _, n := range slices.Backward(g.Nodes) {
		if !slices.ContainsFunc(n.Out, func(v *graph.Value) bool {
			_, have := ids[v]
			return needed[v] && !have
		}) {
			continue
		}
		nodes = append(nodes, n)
		for _, v := range n.In {
			needed[v] = true
		}
	}
	p.values = len(known)
	read := make([]bool, len(known))
	id := func(v *graph.Value) int {
		k, have := ids[v]
		if !have {
			k = p.values
			ids[v] = k
			p.values++
		}
		return k
	}
	for _, n := range slices.Backward(nodes) {
		s := planned{op: n.Op}
		for _, v := range n.In {
			k := id(v)
			if s.in = append(s.in, k); k < len(known) && !read[k] {
				p.inputs, read[k] = append(p.inputs, k), true
			}
		}
		for _, v := range n.Out {
			s.out = append(s.out, id(v))
		}
		p.steps = append(p.steps, s)
	}
	for _, v := range outs {
		p.results = append(p.results, id(v))
	}
}

// A plan is compiled when it is asked for a second time, unless that would take long: the
// same calls are then likely to come again and again.
const (
	compiledFrom = 2
	longPlan     = 2000 // steps
)

// function is the plan as a function of its inputs; nil while it is run op by op.
func (p *plan) function() *Function {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found++; p.f == nil && p.found >= compiledFrom && p.compiles() {
		p.f = Compile("gradients", p.build)
	}
	return p.f
}

// slope is the plan as a function of its inputs with one result. It is the same each time, so that
// traces that read it are equal.
func (p *plan) slope(result int) *Function {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.parts[result]
	if f == nil {
		f = Compile("gradient", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
			return p.build(b, in)[result:][:1]
		})
		if p.parts == nil {
			p.parts = map[int]*Function{}
		}
		p.parts[result] = f
	}
	return f
}

// compiles reports whether the plan can be a function: its results are values of its own,
// each once.
func (p *plan) compiles() bool {
	if len(p.steps) > longPlan || len(p.results) > graph.MaxResults {
		return false
	}
	for i, id := range p.results {
		if id < p.trace.values || slices.Contains(p.results[:i], id) {
			return false
		}
	}
	return true
}

// build appends the plan to a graph.
func (p *plan) build(b *graph.Builder, in []*graph.Value) []*graph.Value {
	values := make([]*graph.Value, p.values)
	for i, id := range p.inputs {
		values[id] = in[i]
	}
	for _, s := range p.steps {
		args := make([]*graph.Value, len(s.in))
		for i, id := range s.in {
			args[i] = values[id]
		}
		for k, v := range b.Apply(s.op, args...)[:len(s.out)] {
			values[s.out[k]] = v
		}
	}
	outs := make([]*graph.Value, len(p.results))
	for i, id := range p.results {
		outs[i] = values[id]
	}
	return outs
}
