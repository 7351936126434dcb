package ref

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// kernels by the kind of op.
var kernels = merge(elementwise, products, convolutions, pools, reductions, movements, casts,
	softmaxes, losses, counts, norms, gathers, dropouts, attentions, updates, rangeds, generators, lengths, dynamics)

func merge(families ...map[string]kernel) map[string]kernel {
	all := map[string]kernel{}
	for _, family := range families {
		maps.Copy(all, family)
	}
	return all
}

// Kinds lists, in alphabetical order, the ops that Run knows.
func Kinds() []string { return slices.Sorted(maps.Keys(kernels)) }

// Run computes one op. It fails if the op's metadata rule refuses the inputs,
// and if the op itself fails: an index is out of range, a value is not finite.
func Run(op graph.Op, in []Array) ([]Array, error) {
	metas := make([]shape.Meta, len(in))
	for i, a := range in {
		if err := a.check(); err != nil {
			return nil, fmt.Errorf("%s: input %d: %w", op.Kind(), i, err)
		}
		metas[i] = a.Meta
	}
	outs, err := op.Infer(metas)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Kind(), err)
	}
	k := kernelOf(op)
	if k == nil {
		return nil, fmt.Errorf("no reference kernel for %s: add one to package ref", op.Kind())
	}
	out := make([]Array, len(outs))
	for i, m := range outs {
		out[i] = New(m)
	}
	if err := k(op, in, out); err != nil {
		return nil, fmt.Errorf("%s: %w", op.Kind(), err)
	}
	return out, nil
}
