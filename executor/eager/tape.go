package eager

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// ErrNoGradient is the cause of errors about gradients that do not exist.
var ErrNoGradient = errors.New("no gradient")

// Tape records calls, so that gradients can be computed from them by the gradients
// that ops have in graphs. It holds a reference to every tensor that it knows until it
// is closed: make one for each step. One goroutine uses it at a time.
type Tape struct {
	context *Context
	builder *graph.Builder
	values  map[*Tensor]*graph.Value
	tensors map[*graph.Value]*Tensor // those of values, each with a reference of the tape
}

// NewTape begins a tape. The caller closes it.
func (c *Context) NewTape() *Tape {
	return &Tape{context: c, builder: graph.NewBuilder("tape", 1), values: map[*Tensor]*graph.Value{}, tensors: map[*graph.Value]*Tensor{}}
}

// Execute is [Context.Execute], recorded. A call that is refused is not recorded.
func (t *Tape) Execute(op graph.Op, args ...*Tensor) []*Tensor {
	return t.run(&Invocation{Op: op, Args: args, Loc: Caller(1)})
}

// One is [Context.One], recorded.
func (t *Tape) One(op graph.Op, args ...*Tensor) *Tensor {
	results := t.run(&Invocation{Op: op, Args: args, Loc: Caller(1)})
	for _, x := range results[1:] {
		_ = x.Release() // fails only for a consumed handle; these are new
	}
	return results[0]
}

// run makes a call, and records it unless it is refused. Arguments that the tape does
// not know are inputs of its graph.
func (t *Tape) run(inv *Invocation) []*Tensor {
	args := make([]*Tensor, len(inv.Args))
	for i, a := range inv.Args {
		if a != nil {
			args[i] = a.Ref() // before the call consumes it
		}
	}
	t.context.Run(inv)
	if inv.Results[0].failed() {
		for _, a := range args {
			if a != nil {
				_ = a.Release() // fails for a handle that was consumed before: the call has told
			}
		}
		return inv.Results
	}
	in := make([]*graph.Value, len(args))
	for i, a := range args {
		in[i] = t.hold(a, func() *graph.Value { return t.builder.Input("in", a.meta) })
	}
	for k, v := range t.builder.Apply(inv.Op, in...) {
		if k < len(inv.Results) {
			t.hold(inv.Results[k].Ref(), func() *graph.Value { return v })
		}
	}
	return inv.Results
}

// hold is the value of a tensor, of which it takes a reference. A tensor that the tape
// does not know gets a new value.
func (t *Tape) hold(x *Tensor, make func() *graph.Value) *graph.Value {
	if v := t.values[x]; v != nil {
		_ = x.Release() // the tape has one
		return v
	}
	v := make()
	t.values[x], t.tensors[v] = v, x
	return v
}

// Gradients computes the gradients of loss, by the tensors wrt: the sums over loss's
// elements. It consumes nothing. The caller releases the results.
func (t *Tape) Gradients(loss *Tensor, wrt ...*Tensor) ([]*Tensor, error) {
	loc := Caller(1)
	of := make([]*graph.Value, len(wrt))
	for i, x := range wrt {
		if of[i] = t.values[x]; of[i] == nil {
			return nil, &Error{Op: "gradients", Loc: loc, Err: fmt.Errorf("%w: tensor %d is no argument of a recorded call: pass it to Tape.Execute", ErrNoGradient, i)}
		}
	}
	from := t.values[loss]
	if from == nil {
		return nil, &Error{Op: "gradients", Loc: loc, Err: fmt.Errorf("%w: the loss is not the result of a recorded call: compute it by Tape.Execute", ErrNoGradient)}
	}
	b := t.builder
	parts := b.Gradients(from, b.One(ops.Fill{Meta: from.Meta, Value: 1}), of, ops.AddOp)
	outs := make([]*graph.Value, len(wrt))
	for i, v := range of {
		if len(parts[v]) == 0 && b.Err() == nil {
			return nil, &Error{Op: "gradients", Loc: loc, Err: fmt.Errorf("%w: the loss does not depend on tensor %d (%v), or an op between them has no gradient", ErrNoGradient, i, v.Meta)}
		}
		outs[i] = sum(b, parts[v])
		b.Output("gradient", outs[i])
	}
	g, err := b.Graph()
	if err != nil {
		return nil, &Error{Op: "gradients", Loc: loc, Err: err}
	}
	return t.evaluate(g, outs, loc), nil
}

// missing lists the nodes that values need and that have not run, in order. Others are
// those of gradients that were asked for before.
func (t *Tape) missing(g *graph.Graph, values []*graph.Value) []*graph.Node {
	needed := map[*graph.Value]bool{}
	for _, v := range values {
		needed[v] = true
	}
	var nodes []*graph.Node
	for _, n := range slices.Backward(g.Nodes) {
		if t.tensors[n.Out[0]] != nil || !slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return needed[v] }) {
			continue
		}
		nodes = append(nodes, n)
		for _, v := range n.In {
			needed[v] = true
		}
	}
	slices.Reverse(nodes)
	return nodes
}

// evaluate runs the nodes that the outputs need and that have not run yet, and returns
// the outputs. The last reader of a value consumes it, so that it can compute in place.
func (t *Tape) evaluate(g *graph.Graph, outs []*graph.Value, loc Location) []*Tensor {
	uses := map[*graph.Value]int{}
	for _, v := range outs {
		uses[v]++
	}
	nodes := t.missing(g, outs)
	for _, n := range nodes {
		for _, v := range n.In {
			uses[v]++
		}
	}
	now := map[*graph.Value]*Tensor{}
	take := func(v *graph.Value) *Tensor {
		if x := t.tensors[v]; x != nil {
			return x.Ref()
		}
		if uses[v]--; uses[v] > 0 {
			return now[v].Ref()
		}
		return now[v]
	}
	for _, n := range nodes {
		inv := &Invocation{Op: n.Op, Loc: loc}
		for _, v := range n.In {
			inv.Args = append(inv.Args, take(v))
		}
		t.context.Run(inv)
		for k, v := range n.Out {
			if now[v] = inv.Results[k]; uses[v] == 0 {
				_ = now[v].Release() // nobody reads it
			}
		}
	}
	results := make([]*Tensor, len(outs))
	for i, v := range outs {
		results[i] = take(v)
	}
	return results
}

// Close gives back what the tape holds.
func (t *Tape) Close() error {
	var errs []error
	for _, x := range t.tensors {
		errs = append(errs, x.Release())
	}
	clear(t.tensors)
	clear(t.values)
	return errors.Join(errs...)
}
