package gen

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// ranged writes the kernels of the update of the range alone, with arguments that begin
// where the range does in the tensors that have more. The rest of these is kept.
func ranged(w *writer, o ops.Ranged) {
	in, out := graph.Metas(w.node.In), graph.Metas(w.node.Out)
	for k, i := range o.Places() {
		if (k > 0 || !o.Apart) && o.Cuts(out[k]) {
			w.keep(i, k)
		}
	}
	part := &writer{node: &graph.Node{Op: o.Op, In: valuesOf(o.Parts(in)), Out: valuesOf(o.Parts(out))},
		ins: shifted(w.ins, in, o), outs: shifted(w.outs, out, o)}
	part.update(o.Op)
	w.calls, w.scratch = append(w.calls, part.calls...), part.scratch
}

// update writes the kernel of an update.
func (w *writer) update(op graph.Op) {
	params, body := updateOf(w, op)
	w.items(w.elems(0), params, body)
}

// updateOf is the parameters of an update's kernel, and its body.
func updateOf(w *writer, op graph.Op) (params []param, body string) {
	switch op := op.(type) {
	case ops.SGD:
		return sgd(w, op)
	case ops.Adam:
		return adam(w, op)
	case ops.Lion:
		return lion(w, op)
	case ops.Averaged:
		return averaged(w, op)
	}
	panic("BUG: " + op.Kind() + " is no update")
}

// averaged also averages each weight that the update makes.
func averaged(w *writer, o ops.Averaged) (params []param, body string) {
	part := &writer{node: &graph.Node{Op: o.Op, In: ops.WithoutAverage(w.node.In), Out: ops.WithoutAverage(w.node.Out)}}
	params, body = updateOf(part, o.Op)
	for i := range params {
		if params[i].arg.Index > 0 { // those behind the average
			params[i].arg.Index++
		}
	}
	return append(params, in(1, "A"), out(1, "A2")), body + "\tf32 a = A[i];\n\tA2[i] = FMA(" + float(1-o.Decay) + ", Z[i] - a, a);\n"
}

// shifted are arguments that begin where the range does.
func shifted(args []Arg, metas []shape.Meta, o ops.Ranged) []Arg {
	args = slices.Clone(args)
	for i := range args {
		if o.Cuts(metas[i]) {
			args[i].Value += int64(o.From) * 4
		}
	}
	return args
}

// valuesOf are values of such metadata.
func valuesOf(metas []shape.Meta) []*graph.Value {
	values := make([]*graph.Value, len(metas))
	for i, m := range metas {
		values[i] = &graph.Value{Meta: m}
	}
	return values
}
