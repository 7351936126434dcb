package gen

import (
	"maps"
	"slices"
)

// templates by the kind of op.
var templates = func() map[string]template {
	all := map[string]template{}
	for _, family := range []map[string]template{elementwise(), products, convolutions, pools, reductions, rowwise, norms, attentions, gathers, updates, movements, casts, counts, generators, lengths, dynamics} {
		for kind, t := range family {
			all[kind] = t
		}
	}
	return all
}()

// Kinds lists the ops that have templates, in alphabetical order.
func Kinds() []string { return slices.Sorted(maps.Keys(templates)) }
