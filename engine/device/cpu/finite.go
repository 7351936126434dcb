package cpu

import (
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// finiteGrain is the numbers that a thread looks at before it claims the next ones.
const finiteGrain = 4 * work.Grain

// finite looks for numbers that are not finite, on a device's threads. It runs under the
// device's launch lock, so its argument can live in it.
type finite struct {
	pool  *pool
	sum   func(x []float32) float64
	x     []float32
	found atomic.Bool // a number that is not finite
}

func newFinite(p *pool, set isa.ISA) *finite { return &finite{pool: p, sum: set.Vec().Sum} }

// all reports whether all numbers are finite.
func (f *finite) all(x []float32) bool {
	f.x = x
	f.found.Store(false)
	work.Do(f.pool, work.CeilDiv(len(x), finiteGrain), f)
	return !f.found.Load()
}

// Chunk implements [work.Task]. The sum is of float64, in which finite numbers of
// float32 never overflow; NaN and infinities stay in it.
func (f *finite) Chunk(i int) {
	from := i * finiteGrain
	if s := f.sum(f.x[from:min(from+finiteGrain, len(f.x))]); s-s != 0 {
		f.found.Store(true)
	}
}
