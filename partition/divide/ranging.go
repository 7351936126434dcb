package divide

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Ranges says which updates are cut into ranges. The zero value cuts none.
type Ranges struct {
	Elems int   // of the smallest range: a multiple of ops.SumElems
	above int64 // bytes: an update that leases no more stays whole
}

// On reports whether any update may be cut.
func (r Ranges) On() bool { return r.Elems > 0 }

// mostRanges is the most ranges of an update. More hardly lower the floor, and each
// is a launch.
const mostRanges = 64

// size is the elements of each range of a tensor.
func (r Ranges) size(of *graph.Value) int {
	whole := r.Elems * mostRanges
	return r.Elems * max(1, (of.Meta.Elems()+whole-1)/whole)
}

// RangesFor are the ways to cut updates for devices whose least limit is that many
// bytes, coarse to fine. Small ranges lower the floor; large ones are fewer launches.
func RangesFor(limit int64) []Ranges {
	fine := Ranges{ops.SumElems, limit / 16}
	coarse := Ranges{int(limit/256) / ops.SumElems * ops.SumElems, fine.above} // a 64th of the memory, at 4 bytes each
	if coarse.Elems <= fine.Elems {
		return []Ranges{fine}
	}
	return []Ranges{coarse, fine}
}
