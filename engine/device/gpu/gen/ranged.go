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
	switch update := o.Op.(type) {
	case ops.SGD:
		sgd(part, update)
	case ops.Adam:
		adam(part, update)
	case ops.Lion:
		lion(part, update)
	}
	w.calls, w.scratch = append(w.calls, part.calls...), part.scratch
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
