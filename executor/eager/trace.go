package eager

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sync"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// trace is the calls of a tape. Values are numbered as they appear: those that calls read
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

// read notes an argument of the call under way.
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
		for _, v := range b.Apply(c.op, in...)[:c.out] {
			values[next] = v
			next++
		}
	}
	return b, values
}
