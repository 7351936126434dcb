package eager

import (
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"sync"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// Tape records calls, so that gradients can be computed from them by the gradients
// that ops have in graphs. It holds a reference to every tensor that it knows until it
// is closed: make one for each step. One goroutine uses it at a time.
//
// The first time that calls are recorded, their gradients are run op by op. Where the same
// calls come again, as in a training loop, they are compiled and run in one launch, with
// the same bits.
type Tape struct {
	context *Context
	trace   trace
	ids     map[Tensor]int   // of the tensors that it holds, in tensors
	tensors []Tensor         // by the number of a value in the trace, each with a reference of the tape
	closed  bool             // calls are refused
	room    []Tensor         // for the arguments of a call
	slopes  map[Tensor]slope // nil before the first
}

// slope is a gradient that a tape has computed and that no recorded call has read yet. The tape
// does not hold it.
type slope struct {
	of     *plan
	result int // of the plan's
}

// NewTape begins a tape. The caller closes it.
func (c *Context) NewTape() *Tape { return &Tape{context: c, ids: map[Tensor]int{}} }

// Execute is [Context.Execute], recorded. A call that is refused is not recorded.
func (t *Tape) Execute(op graph.Op, args ...Tensor) []Tensor {
	return t.run(op, args, make([]Tensor, maxOutputs))
}

// One is [Context.One], recorded.
func (t *Tape) One(op graph.Op, args ...Tensor) Tensor {
	var out [maxOutputs]Tensor
	return first(t.run(op, args, out[:]))
}

// run makes a call, and records it unless it is refused. Arguments that the tape does
// not know are inputs of its trace.
func (t *Tape) run(op graph.Op, args, out []Tensor) []Tensor {
	if err := t.check(); err != nil {
		inv := &Invocation{Op: op, Args: slices.Clone(args), Loc: Caller(2)}
		if t != nil {
			inv.context = t.context
		}
		inv.Fail(err)
		return inv.Results
	}
	t.room = t.room[:0]
	for _, x := range args {
		t.room = append(t.room, x.refOrZero()) // before the call consumes it
	}
	results := t.context.call(op, args, out, 2)
	if results[0].isRefused() {
		for _, x := range t.room {
			if !x.IsZero() {
				_ = x.Release() // fails for a handle that was consumed before: the call has told
			}
		}
		return results
	}
	if len(t.slopes) > 0 {
		for _, x := range t.room {
			t.recordSlope(x)
		}
	}
	for _, x := range t.room {
		if id, known := t.ids[x]; known {
			_ = x.Release() // the tape has one
			t.trace.read(id)
		} else {
			t.trace.read(t.hold(x))
			t.trace.input(x.Meta())
		}
	}
	for _, x := range results {
		t.hold(x.Ref())
	}
	t.trace.call(op, len(args), len(results))
	return results
}

// recordSlope records how x came about if it is a gradient that this tape has computed: as a call of a
// function, whose ops are differentiated in their turn.
func (t *Tape) recordSlope(x Tensor) {
	s, ok := t.slopes[x]
	if !ok {
		return
	}
	delete(t.slopes, x)
	held := x.Ref()
	if held.refused() {
		return // it was consumed: the caller tells
	}
	for _, id := range s.of.inputs {
		t.trace.read(id)
	}
	t.hold(held)
	t.trace.call(s.of.slope(s.result), len(s.of.inputs), 1)
}

// refOrZero is a further reference; of the zero Tensor, the zero Tensor.
func (x Tensor) refOrZero() Tensor {
	if x.IsZero() {
		return x
	}
	return x.Ref()
}

// isRefused reports whether the handle is that of a refused call.
func (x Tensor) isRefused() bool { return x.IsZero() || x.Device() == "" }

// hold gives a tensor the next number, with the reference of x.
func (t *Tape) hold(x Tensor) (id int) {
	id = len(t.tensors)
	t.ids[x], t.tensors = id, append(t.tensors, x)
	return id
}

// Gradients computes the gradients of loss, by the tensors wrt: the sums over loss's
// elements. It consumes nothing. The caller releases the results. A recorded call may read them, and so may
// loss be one: their gradients are computed in their turn. That fails, and names the op, where a rule for
// a gradient uses an op that has no gradient itself.
func (t *Tape) Gradients(loss Tensor, wrt ...Tensor) ([]Tensor, error) {
	loc := Caller(1)
	if err := t.check(); err != nil {
		return nil, gradientError(loc, err)
	}
	of := make([]int, len(wrt))
	for i, x := range wrt {
		id, known := t.ids[x]
		if !known {
			return nil, gradientError(loc, fmt.Errorf("%w: tensor %d is no argument of a recorded call: pass it to Tape.Execute", ErrNoGradient, i))
		}
		of[i] = id
	}
	t.recordSlope(loss)
	from, known := t.ids[loss]
	if !known {
		return nil, gradientError(loc, fmt.Errorf("%w: the loss is not the result of a recorded call, nor a gradient of this tape: compute it with Tape.Execute", ErrNoGradient))
	}
	p, err := t.context.plans.find(&t.trace, from, of)
	if err != nil {
		return nil, gradientError(loc, err)
	}
	var list []Tensor
	if f := p.function(); f != nil && t.together(p) {
		list = t.launch(p, f, loc)
	} else {
		list = t.replay(p, loc)
	}
	for i, x := range list {
		x = x.bring(t.tensors[p.wrt[i]].Device(), loc)
		list[i] = x
		if _, known := t.ids[x]; known || x.refused() {
			continue
		}
		if t.slopes == nil {
			t.slopes = map[Tensor]slope{}
		}
		t.slopes[x] = slope{p, i}
	}
	return list, nil
}

func gradientError(loc Location, err error) error {
	return &Error{Op: "gradients", Loc: loc, Err: err}
}

// together reports whether all that a plan reads is on one device.
func (t *Tape) together(p *plan) bool {
	for _, id := range p.inputs {
		if t.tensors[id].Device() != t.tensors[p.inputs[0]].Device() {
			return false
		}
	}
	return true
}

// launch runs a plan in one launch.
func (t *Tape) launch(p *plan, f *Function, loc Location) []Tensor {
	inv := &Invocation{Op: f, Loc: loc, needs: len(p.results), Device: t.tensors[p.loss].Device()}
	if len(p.inputs) > 0 {
		inv.Device = t.tensors[p.inputs[0]].Device()
	}
	for _, id := range p.inputs {
		inv.Args = append(inv.Args, t.tensors[id].Ref())
	}
	t.context.Run(inv)
	return slices.Clone(inv.Results[:len(p.results)]) // the lane still reads its own list
}

// replay runs a plan op by op. The last reader of a value that the tape does not hold
// consumes it, so that it can compute in place.
func (t *Tape) replay(p *plan, loc Location) []Tensor {
	now := make([]Tensor, p.values) // by number: those of the plan
	uses := make([]int, p.values)   // reads to come
	for _, s := range p.steps {
		for _, id := range s.in {
			uses[id]++
		}
	}
	for _, id := range p.results {
		uses[id]++
	}
	take := func(id int) Tensor {
		if id < len(t.tensors) {
			return t.tensors[id].Ref()
		}
		if uses[id]--; uses[id] > 0 {
			return now[id].Ref()
		}
		return now[id]
	}
	for _, s := range p.steps {
		inv := &Invocation{Op: s.op, Args: make([]Tensor, len(s.in)), Loc: loc, needs: len(s.out)}
		for i, id := range s.in {
			inv.Args[i] = take(id)
		}
		inv.Device = t.tensors[p.loss].Device()
		for i, x := range inv.Args { // with arguments of several devices, the op runs on that of the first
			if i == 0 {
				inv.Device = x.Device()
			}
			inv.Args[i] = x.bring(inv.Device, loc)
		}
		t.context.Run(inv)
		for k, id := range s.out {
			if now[id] = inv.Results[k]; uses[id] == 0 {
				_ = now[id].Release() // nobody reads it
			}
		}
	}
	results := make([]Tensor, len(p.results))
	for i, id := range p.results {
		results[i] = take(id)
	}
	return results
}

var errTapeClosed = errs.With(errors.New("the tape is closed: make a new tape for each step, and close it only after the step's last call"), errs.ErrClosed)

// check refuses a nil tape, one that NewTape did not make, and a closed one.
func (t *Tape) check() error {
	switch {
	case t == nil || t.ids == nil:
		return errs.NotOpened("Tape", "NewTape")
	case t.closed:
		return errTapeClosed
	}
	return nil
}

// Close gives back what the tape holds, and ends it: later calls are refused. A nil tape
// holds nothing.
func (t *Tape) Close() error {
	if t == nil {
		return nil
	}
	t.closed = true
	var failed []error
	for _, x := range t.tensors {
		failed = append(failed, x.Release())
	}
	t.tensors = nil
	clear(t.ids)
	clear(t.slopes)
	return errors.Join(failed...)
}

// trace is the calls of a tape, which owns it; plans keep clones. Values are numbered as they appear: those that calls read
// and no recorded call made are inputs.
type trace struct {
	calls  []taped
	reads  []int // the values that calls read, one call after the other
	inputs []input
	values int
	hash   uint64 // equal for equal traces
}

// taped is a call.
type taped struct {
	op      graph.Op
	in, out int // number of arguments and of results
}

// input is a value that no recorded call made.
type input struct {
	id   int
	meta shape.Meta
}

var traceSeed = maphash.MakeSeed()

// mix takes a number into the hash.
func (t *trace) mix(n uint64) { t.hash = (t.hash ^ n) * 0x9e3779b97f4a7c15 }

// read records an argument of the call under way.
func (t *trace) read(id int) {
	t.reads = append(t.reads, id)
	t.values = max(t.values, id+1)
	t.mix(uint64(id))
}

// input says that the value read last is an input.
func (t *trace) input(m shape.Meta) {
	t.inputs = append(t.inputs, input{t.reads[len(t.reads)-1], m})
	t.mix(uint64(m.DType) << 32)
	for _, d := range m.Shape {
		t.mix(uint64(d))
	}
}

// call ends the call under way, whose results are the next values.
func (t *trace) call(op graph.Op, in, out int) {
	t.calls = append(t.calls, taped{op, in, out})
	t.values += out
	t.mix(maphash.String(traceSeed, op.Kind()) + uint64(out))
}

// equal reports whether two traces are the same calls on inputs of the same metadata.
func (t *trace) equal(o *trace) bool {
	return t.hash == o.hash && slices.Equal(t.reads, o.reads) &&
		slices.EqualFunc(t.inputs, o.inputs, func(a, b input) bool { return a.id == b.id && a.meta.Equal(b.meta) }) &&
		slices.EqualFunc(t.calls, o.calls, func(a, b taped) bool { return a.in == b.in && a.out == b.out && sameOp(a.op, b.op) })
}

// sameOp reports whether two ops have the same attributes.
func sameOp(a, b graph.Op) bool {
	t := reflect.TypeOf(a)
	if t != reflect.TypeOf(b) {
		return false
	}
	known, _ := attrsByType.Load(t)
	if known == nil {
		known = attrsOf(t, a)
		attrsByType.Store(t, known)
	}
	if of := known.(*attrs); of.plain {
		return a == b && signs(a, of.floats) == signs(b, of.floats)
	}
	return graph.OpString(a) == graph.OpString(b)
}

// attrsByType has the attrs of the types of ops.
var attrsByType sync.Map

// clone is a trace that recording does not change.
func (t *trace) clone() trace {
	c := *t
	c.calls, c.reads, c.inputs = slices.Clone(t.calls), slices.Clone(t.reads), slices.Clone(t.inputs)
	return c
}

// graph builds the trace's graph: the builder, and the values by number.
func (t *trace) graph() (b *graph.Builder, values []*graph.Value) {
	b = graph.NewBuilder("tape", 1)
	values = make([]*graph.Value, t.values)
	for _, in := range t.inputs {
		values[in.id] = b.Input("in", in.meta)
	}
	reads, next := t.reads, 0
	for _, c := range t.calls {
		in := make([]*graph.Value, c.in)
		for i := range in {
			in[i] = values[reads[i]]
			next = max(next, reads[i]+1)
		}
		reads = reads[c.in:]
		for _, v := range b.Apply(unplaced(c.op), in...)[:c.out] {
			values[next] = v
			next++
		}
	}
	return b, values
}
