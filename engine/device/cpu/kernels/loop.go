package kernels

import (
	"sync/atomic"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// grain is how many elements an elementwise chunk holds: enough work to be
// worth handing to a thread, little enough to stay in the first cache.
const grain = 4096

// chunks is how many pieces of size g n elements make.
func ceilDiv(n, g int) int { return (n + g - 1) / g }

// span is piece i of n elements cut into pieces of size g.
func interval(i, g, n int) (lo, hi int) { return i * g, min(i*g+g, n) }

// do runs a task, without the pool when there is nothing to share.
func do(p Pool, n int, t Task) {
	switch n {
	case 0:
	case 1:
		t.Chunk(0)
	default:
		p.Do(n, t)
	}
}

// floats views n float32 elements.
func floats(b []byte, n int) []float32 { return shape.View[float32](b)[:n] }

// ints views n int32 elements.
func ints(b []byte, n int) []int32 { return shape.View[int32](b)[:n] }

// doubles views n float64 elements of scratch memory.
func doubles(b []byte, n int) []float64 { return shape.View[float64](b)[:n] }

// scalar reads a float32 scalar.
func scalar(b []byte) float32 { return shape.View[float32](b)[0] }

// scalarInt reads an int32 scalar.
func scalarInt(b []byte) int32 { return shape.View[int32](b)[0] }

// in and out are the metadata of a node's input and output i.
func in(n *graph.Node, i int) shape.Meta  { return n.In[i].Meta }
func out(n *graph.Node, i int) shape.Meta { return n.Out[i].Meta }

// rows splits a shape at its last axis: how many rows of how many elements.
func rows(s shape.Shape) (r, c int) {
	if len(s) == 0 {
		return 1, 1
	}
	return s[:len(s)-1].Elems(), s[len(s)-1]
}

// rowGrain is how many rows of c elements make a chunk.
func rowGrain(c int) int { return max(1, grain/max(1, c)) }

// first remembers the lowest position at which something was wrong, whichever
// chunk reports first.
type lowest struct{ pos int64 }

// reset forgets; it must precede every run.
func (f *lowest) reset() { atomic.StoreInt64(&f.pos, -1) }

// report records a position unless a lower one is known.
func (f *lowest) report(pos int) {
	for {
		old := atomic.LoadInt64(&f.pos)
		if old >= 0 && old <= int64(pos) {
			return
		}
		if atomic.CompareAndSwapInt64(&f.pos, old, int64(pos)) {
			return
		}
	}
}

// get is the lowest position reported, -1 if there was none.
func (f *lowest) position() int { return int(atomic.LoadInt64(&f.pos)) }

// sameMemory reports whether two buffers are one.
func sameMemory(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && &a[0] == &b[0]
}
