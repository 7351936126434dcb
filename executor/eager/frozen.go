package eager

import "github.com/berth-ml/berth/engine/graph"

// frozen is an op that a cache finds by its address.
type frozen struct{ graph.Op }

// Freeze makes an op of another one that is found by its address: its attributes are read
// once, and no more at each call. It is for ops with lists among their attributes, such as
// ops.Transpose, and for those of [graph.Compose], where the time of a call matters. Freeze an
// op once and keep the result: each one is compiled by itself.
func Freeze(op graph.Op) graph.Op { return &frozen{op} }

// Expand appends the op itself: see [graph.Composite].
func (f *frozen) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	return b.Apply(f.Op, in...)
}

// byAddress reports whether two ops of op's type are the same only if they are at the same
// address.
func byAddress(op graph.Op) bool {
	switch op.(type) {
	case *Function, *frozen:
		return true
	}
	return false
}
