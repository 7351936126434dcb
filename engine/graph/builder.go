package graph

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
)

// ErrShape is the cause of every error about metadata.
var ErrShape = errors.New("shapes do not fit")

// Builder appends to a graph. The first error sticks: later calls do nothing
// and return harmless values, so code that builds a model reads like the model
// and checks once, in [Builder.Graph]. A Builder is for one goroutine.
type Builder struct {
	g            *Graph
	microbatches int
	phase        Phase          // of nodes to come
	layer        *Layer         // of nodes to come; nil outside a layer
	of           *Node          // the node that nodes to come differentiate
	used         map[string]int // how often each name was asked for
	metas        []shape.Meta   // of the inputs of the node under way
	err          error          // the first error
	stop         *stop.Check    // its error is recorded
}

// NewBuilder starts a graph for a step of that many microbatches (at least 1).
func NewBuilder(name string, microbatches int) *Builder {
	return &Builder{g: &Graph{Name: name}, microbatches: max(1, microbatches), used: map[string]int{}, stop: stop.When(nil)}
}

// Stop has ask called now and then until the graph is built: its error becomes the
// builder's.
func (b *Builder) Stop(ask func() error) { b.stop = stop.When(ask) }

// Microbatches is the number of microbatches of a step.
func (b *Builder) Microbatches() int { return b.microbatches }

// Err is the first error.
func (b *Builder) Err() error { return b.err }

// Fail records an error, with the current layer and its config line, unless an
// error was recorded before.
func (b *Builder) Fail(err error) {
	if b.err != nil || err == nil {
		return
	}
	if b.layer == nil {
		b.err = fmt.Errorf("%s: %w", b.g.Name, err)
		return
	}
	b.err = fmt.Errorf("%v: %w", b.layer, err)
	if p := b.layer.Pos.String(); p != "" {
		b.err = fmt.Errorf("%s: %w", p, b.err)
	}
}

// In sets the layer of the nodes and variables appended until the returned
// function is called.
func (b *Builder) In(l *Layer) (restore func()) {
	old := b.layer
	b.layer = l
	return func() { b.layer = old }
}

// InPhase sets the phase of the nodes appended until the returned function is
// called.
func (b *Builder) InPhase(p Phase) (restore func()) {
	old := b.phase
	b.phase = p
	return func() { b.phase = old }
}

// Layer is the current layer, nil outside one.
func (b *Builder) Layer() *Layer { return b.layer }

// Input declares a value that is fed, once per microbatch.
func (b *Builder) Input(name string, m shape.Meta) *Value {
	v := b.value(name, m)
	v.Kind = Input
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// MicrobatchConstant declares an input that differs between microbatches but
// not between steps: it is copied in once per run.
func (b *Builder) MicrobatchConstant(name string, m shape.Meta) *Value {
	v := b.Input(name, m)
	v.PerMicrobatch = true
	return v
}

// Var declares a variable. Its name must be unique. Parameter groups select by
// tags.
func (b *Builder) Var(name string, m shape.Meta, role Role, init Init, tags ...string) *Value {
	if b.used[name] > 0 {
		b.Fail(fmt.Errorf("variable %q is declared twice", name))
	}
	v := &Value{Name: name, Meta: m}
	if !b.stopped() {
		v = b.value(name, m)
		b.g.Vars = append(b.g.Vars, v)
	}
	v.Kind, v.Role, v.Init, v.Layer, v.Tags = Variable, role, init, b.layer, tags
	return v
}

// Apply appends a node and returns its outputs.
func (b *Builder) Apply(op Op, in ...*Value) []*Value {
	metas, err := b.infer(op, in)
	if err != nil {
		b.Fail(err)
	}
	if b.stopped() {
		return b.broken(op)
	}
	n := &Node{ID: len(b.g.Nodes), Op: op, In: in, Out: make([]*Value, 0, len(metas)), Phase: b.phase, Layer: b.layer, Of: b.of}
	for i, m := range metas {
		v := b.value(b.outName(op, i), m)
		v.Node, v.Out = n, i
		n.Out = append(n.Out, v)
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out
}

// One is Apply for ops with one output, or of whose outputs only the first is
// needed.
func (b *Builder) One(op Op, in ...*Value) *Value { return b.Apply(op, in...)[0] }

// Assign makes a variable take a value when the step ends.
func (b *Builder) Assign(variable, v *Value) {
	if b.err != nil {
		return
	}
	if variable.Kind != Variable || !variable.Meta.Equal(v.Meta) {
		b.Fail(fmt.Errorf("%w: cannot assign %v to %v", ErrShape, v, variable))
		return
	}
	b.g.Assigns = append(b.g.Assigns, Assign{variable, v})
}

// Accumulate is the sum of part over the step's microbatches, for the Update phase
// to read. With one microbatch it is part itself.
func (b *Builder) Accumulate(part *Value, add Op) *Value {
	if b.microbatches == 1 || b.err != nil {
		return part
	}
	sum := b.value("sum("+part.Name+")", part.Meta)
	sum.Kind = Summed
	b.g.Accums = append(b.g.Accums, Accum{part, sum, add})
	return sum
}

// Output names a value that a caller may fetch.
func (b *Builder) Output(name string, v *Value) {
	if b.err != nil {
		return
	}
	if v.Kind == Computed && b.used[name] == 0 {
		b.used[name]++
		v.Name = name
	}
	b.g.Outputs = append(b.g.Outputs, v)
}

// Graph ends building. It returns the graph without unused nodes, or the first
// error. Nodes keep their IDs.
func (b *Builder) Graph() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	g := prune(b.g, b.stop)
	if b.err = b.stop.Err(); b.err != nil {
		return nil, b.err
	}
	return g, nil
}

// stopped counts an item of work. It reports whether there was an error or the
// builder is to stop, which is then its error.
func (b *Builder) stopped() bool {
	if b.err == nil && b.stop.Done() {
		b.err = b.stop.Err()
	}
	return b.err != nil
}

// infer is the metadata of an op's outputs.
func (b *Builder) infer(op Op, in []*Value) ([]shape.Meta, error) {
	for i, v := range in {
		if v == nil {
			return nil, fmt.Errorf("BUG: input %d of %s is nil", i, op.Kind())
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	b.metas = b.metas[:0]
	for _, v := range in {
		b.metas = append(b.metas, v.Meta)
	}
	var out []shape.Meta
	var refused error
	err := guard(op, "Infer", func() { out, refused = op.Infer(b.metas) })
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, b.shapeError(op, refused)
	case len(out) == 0:
		return nil, wrong(op, "Infer", "no outputs: give at least one")
	}
	for _, m := range out {
		if err := m.Shape.Validate(); err != nil {
			return nil, b.shapeError(op, err)
		}
	}
	if BringsKernel(op) { // later, nobody expects a panic
		err = guard(op, "Cost", func() { op.Cost(b.metas, out) })
	}
	return out, err
}

// shapeError is a metadata rule's error. In a layer it reads as the rule words it,
// since the layer is named; outside a layer it names the op.
func (b *Builder) shapeError(op Op, err error) error {
	if b.layer == nil {
		err = fmt.Errorf("%s: %w", op.Kind(), err)
	}
	return ruleError{err}
}

// ruleError is an ErrShape that reads as the rule words it.
type ruleError struct{ error }

// Unwrap gives both of its causes: ErrShape and the error that it wraps.
func (e ruleError) Unwrap() []error { return []error{ErrShape, e.error} }

// broken stands in for the outputs of a node that could not be appended. No op has
// more than eight outputs.
func (b *Builder) broken(op Op) []*Value {
	vs := make([]*Value, 8)
	for i := range vs {
		vs[i] = &Value{Name: "broken." + op.Kind(), Meta: shape.F32()}
	}
	return vs
}

// value appends a value of a name like that, made unique.
func (b *Builder) value(name string, m shape.Meta) *Value {
	v := &Value{ID: len(b.g.Values), Name: b.unique(name), Meta: m}
	b.g.Values = append(b.g.Values, v)
	return v
}

// unique is the name, with a number behind it if it is taken.
func (b *Builder) unique(name string) string {
	k := b.used[name]
	b.used[name] = k + 1
	if k > 0 {
		return b.unique(name + "." + strconv.Itoa(k))
	}
	return name
}

// outName is the name of output i of an op: "fc.matmul", "backward/fc.matmul:1".
func (b *Builder) outName(op Op, i int) string {
	name := op.Kind()
	if b.layer != nil {
		name = b.layer.Name + "." + name
	}
	if b.phase != Forward {
		name = phaseNames[b.phase] + "/" + name
	}
	if i > 0 {
		name = fmt.Sprintf("%s:%d", name, i)
	}
	return name
}
