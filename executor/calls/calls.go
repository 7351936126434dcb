package calls

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
)

// Class says whose memory a Memory is.
type Class uint8

// The classes.
const (
	Input     Class = iota // of the segment's input Index
	Output                 // of the segment's output Index
	Temporary              // of a value that only the segment uses
)

// Memory is the memory of one value, or of several that are computed in place.
type Memory struct {
	Class Class
	Index int    // of the input or output; 0 for temporaries
	Name  string // of the value that it holds first
	Meta  shape.Meta
}

// Call is one op of a segment.
type Call struct {
	// Graph has the op and the reshapes about it. Its inputs and outputs are the
	// distinct memories that the call reads and writes.
	Graph *graph.Graph
	Node  *graph.Node // the segment's node; nil for a copy
	Alias []int       // of Graph, as device.CompileOptions has it
	In    []*Memory   // per input of Graph
	Out   []*Memory   // per output of Graph
	Over  []*Memory   // temporaries that no later call uses
}

// Name is the name of the first value that the call makes.
func (c *Call) Name() string { return c.Graph.Outputs[0].Name }

// Bytes is the memory that the call reads and writes, in bytes.
func (c *Call) Bytes() (n int64) {
	for _, m := range slices.Concat(c.In, c.Out) {
		n += m.Meta.Bytes()
	}
	return n
}

// Cut cuts a segment with these donated inputs into calls, in the order in which
// they run. Calls that overwrite an input come behind those that do not depend on
// them, so that a result that is not finite is found before. A segment that only hands
// inputs through has none. ask is called now and then; its error ends the cut. Nil
// means never.
func Cut(g *graph.Graph, alias []int, ask func() error) ([]Call, error) {
	p, err := planner.New(g, device.CompileOptions{Alias: alias, CheckFinite: true, Stop: ask}, planner.Options{Align: device.MemoryUnit, Alone: true})
	if err != nil {
		return nil, err
	}
	c := newCutter(p)
	check := stop.When(ask)
	calls := make([]Call, 0, len(p.Steps))
	for i := range stop.Each(check, p.Steps) {
		call, err := c.call(&p.Steps[i])
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	end(calls)
	return calls, check.Err()
}

// cutter makes the calls of a plan.
type cutter struct {
	plan *planner.Plan
	ins  []*Memory
	outs []*Memory                    // the input's where an output takes over its memory
	now  map[*planner.Storage]*Memory // of temporaries
}

func newCutter(p *planner.Plan) *cutter {
	c := &cutter{plan: p, now: map[*planner.Storage]*Memory{}}
	for j, v := range p.Graph.Inputs {
		c.ins = append(c.ins, &Memory{Class: Input, Index: j, Name: v.Name, Meta: v.Meta})
	}
	for k, v := range p.Graph.Outputs {
		if j := p.Alias[k]; j >= 0 {
			c.outs = append(c.outs, c.ins[j])
		} else {
			c.outs = append(c.outs, &Memory{Class: Output, Index: k, Name: v.Name, Meta: v.Meta})
		}
	}
	return c
}

// memory is the memory that a storage is now.
func (c *cutter) memory(s *planner.Storage) *Memory {
	switch s.Class {
	case planner.Input:
		return c.ins[s.Index]
	case planner.Output:
		return c.outs[s.Index]
	}
	return c.now[s]
}

// write is the memory to which a call writes a value. A temporary that is computed
// in place stays in its memory if the metadata agree.
func (c *cutter) write(s *planner.Storage, v *graph.Value) *Memory {
	if s.Class == planner.Temporary && (c.now[s] == nil || !c.now[s].Meta.Equal(v.Meta)) {
		c.now[s] = &Memory{Class: Temporary, Name: v.Name, Meta: v.Meta}
	}
	return c.memory(s)
}

// call makes the call of a step.
func (c *cutter) call(st *planner.Step) (Call, error) {
	b := newBuilder(c.plan.Graph.Name)
	if st.Cluster == nil {
		from, to := c.memory(st.In[0]), c.memory(st.Out[0])
		b.output(to, b.reshaped(b.input(from), to.Meta))
		return b.call, nil
	}
	n := st.Cluster.Nodes[0]
	if len(st.Cluster.Nodes) > 1 || fuse.IsView(n) {
		return Call{}, fmt.Errorf("BUG: %s is no single op", st.Cluster.Describe())
	}
	in := make([]*graph.Value, len(n.In))
	for a, v := range n.In {
		in[a] = b.reshaped(b.input(c.memory(st.In[a])), v.Meta)
	}
	var when []graph.Guard
	for _, guard := range st.When {
		when = append(when, graph.Guard{Value: b.input(c.memory(guard.Storage)), Else: guard.Else})
	}
	for o, v := range b.node(n, in) {
		m := c.write(st.Out[o], n.Out[o])
		b.output(m, b.reshaped(v, m.Meta))
		b.call.Graph.Needed = append(b.call.Graph.Needed, when)
	}
	for _, view := range b.call.Graph.Nodes { // it is skipped with the node
		view.Conditional = n.Conditional
	}
	return b.call, nil
}

// end notes which temporaries are over after each call.
func end(calls []Call) {
	seen := map[*Memory]bool{}
	for i := len(calls) - 1; i >= 0; i-- {
		c := &calls[i]
		for _, m := range slices.Concat(c.In, c.Out) {
			if m.Class == Temporary && !seen[m] {
				seen[m] = true
				c.Over = append(c.Over, m)
			}
		}
	}
}

// builder builds the graph of a call.
type builder struct {
	call   Call
	values int
}

func newBuilder(segment string) *builder {
	return &builder{call: Call{Graph: &graph.Graph{Name: segment}}}
}

// value makes a value of the graph.
func (b *builder) value(name string, m shape.Meta) *graph.Value {
	b.values++
	return &graph.Value{ID: b.values - 1, Name: name, Meta: m}
}

// input is the input of the graph for a memory.
func (b *builder) input(m *Memory) *graph.Value {
	c := &b.call
	if i := slices.Index(c.In, m); i >= 0 {
		return c.Graph.Inputs[i]
	}
	v := b.value(m.Name, m.Meta)
	v.Kind = graph.Input
	c.In, c.Graph.Inputs = append(c.In, m), append(c.Graph.Inputs, v)
	return v
}

// output makes a value an output of the graph, in a memory.
func (b *builder) output(m *Memory, v *graph.Value) {
	c := &b.call
	c.Alias = append(c.Alias, slices.Index(c.In, m))
	c.Out, c.Graph.Outputs = append(c.Out, m), append(c.Graph.Outputs, v)
}

// reshaped is a value with other metadata of as many elements: v itself if they are
// its own.
func (b *builder) reshaped(v *graph.Value, m shape.Meta) *graph.Value {
	if v.Meta.Equal(m) {
		return v
	}
	op := ops.Reshape{Shape: m.Shape}
	n := &graph.Node{ID: len(b.call.Graph.Nodes), Op: op, In: []*graph.Value{v}}
	out := b.value(v.Name, m)
	out.Node, n.Out = n, []*graph.Value{out}
	b.call.Graph.Nodes = append(b.call.Graph.Nodes, n)
	return out
}

// node adds the segment's node, with the values of the call in place of its own.
func (b *builder) node(of *graph.Node, in []*graph.Value) []*graph.Value {
	n := *of
	n.In, n.Out = in, make([]*graph.Value, len(of.Out))
	for o, v := range of.Out {
		n.Out[o] = b.value(v.Name, v.Meta)
		n.Out[o].Node, n.Out[o].Out = &n, o
	}
	g := b.call.Graph
	g.Nodes, g.Name = append(g.Nodes, &n), g.Name+" "+of.Op.Kind()
	b.call.Node = of
	return n.Out
}
