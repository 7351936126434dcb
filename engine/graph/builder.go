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
	phase        Phase                  // of nodes to come
	layer        *Layer                 // of nodes to come; nil outside a layer
	of           *Node                  // the node that nodes to come differentiate
	region       *region                // of nodes to come; nil outside one
	sums         map[*Value]GradientSum // of gradients, where it is not one addition after the other
	used         map[string]int         // how often each name was asked for
	metas        []shape.Meta           // of the inputs of the node under way
	wholes       map[int]whole          // by the index of their last node
	err          error                  // the first error
	stop         *stop.Check            // its error is recorded
	stopgap      []*Value               // see broken
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

// stopped counts an item of work. It reports whether there was an error or the
// builder is to stop, which is then its error.
func (b *Builder) stopped() bool {
	if b.err == nil && b.stop.Done() {
		b.err = b.stop.Err()
	}
	return b.err != nil
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

// region is nodes that read values from outside through stand-ins: the body of a loop,
// or a branch of a conditional.
type region struct {
	outer *region
	first int // ID of the region's first value
	enter func(outside *Value) *Value
	ins   map[*Value]*Value // stand-ins, by the value from outside

	branch bool // it, or one around it, is a branch
}

// whole is the nodes of a composite that is differentiated as a whole.
type whole struct {
	first int // index of its first node
	node  *Node
}

// GradientSum is a way of summing the gradients of a value: one for each of its readers, from the
// last to the first.
type GradientSum struct {
	// Join may join a new gradient with those before it, which are in parts. Nil keeps
	// them apart until Total.
	Join func(b *Builder, parts []*Value, part *Value) []*Value
	// Total is the sum of the parts, of which there is at least one.
	Total func(b *Builder, parts []*Value) *Value
}
