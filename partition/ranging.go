package partition

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// ranging says which updates are cut into ranges. The zero value cuts none.
type ranging struct {
	elems int   // of the smallest range: a multiple of ops.SumElems
	above int64 // bytes: an update that leases no more stays whole
}

// on reports whether any update may be cut.
func (r ranging) on() bool { return r.elems > 0 }

// mostRanges is the most ranges of an update. More hardly lower the floor, and each
// is a launch.
const mostRanges = 64

// size is the elements of each range of a tensor.
func (r ranging) size(of *graph.Value) int {
	whole := r.elems * mostRanges
	return r.elems * max(1, (of.Meta.Elems()+whole-1)/whole)
}

// rangings are the ways to cut updates for devices whose least limit is that many
// bytes, coarse to fine. Small ranges lower the floor; large ones are fewer launches.
func rangings(limit int64) []ranging {
	fine := ranging{ops.SumElems, limit / 16}
	coarse := ranging{int(limit/256) / ops.SumElems * ops.SumElems, fine.above} // a 64th of the memory, at 4 bytes each
	if coarse.elems <= fine.elems {
		return []ranging{fine}
	}
	return []ranging{coarse, fine}
}
