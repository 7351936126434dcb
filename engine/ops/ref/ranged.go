package ref

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var rangeds = map[string]kernel{"ranged": ranged}

// ranged runs the op on the ranges. It writes over those of the inputs that the
// outputs take the place of.
func ranged(op graph.Op, in, out []Array) error {
	o := op.(ops.Ranged)
	for k, i := range o.Alias() {
		copy(out[k].F, in[i].F)
	}
	return updates[o.Op.Kind()](o.Op, rangesOf(o, in), rangesOf(o, out))
}

// rangesOf is the range of each array, in the array's own memory.
func rangesOf(o ops.Ranged, arrays []Array) []Array {
	parts := make([]Array, len(arrays))
	for i, a := range arrays {
		if parts[i] = a; o.Cuts(a.Meta) {
			parts[i] = Floats(a.F[o.From:][:o.Count], o.Count)
		}
	}
	return parts
}
