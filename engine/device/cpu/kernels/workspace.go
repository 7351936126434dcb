package kernels

import (
	"sync"
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/blas"
)

// workspace is the packing memory of one chunk: a panel of A, a block of B,
// and rows on their way to being transposed. extra is what a chunk asked for
// besides ([workspace.more]).
type workspace struct {
	a, b, rows, extra []float32
	call              blas.Call
	config            tileConfig
	unsplittable      unsplittable
	next              *workspace
}

// workspaces are those that nobody uses. As many exist as chunks ever packed
// at the same time, which is the number of threads, and they stay, as threads'
// stacks do. The last one given back is taken first, so a thread mostly gets
// the one that is still in its cache.
var workspaces struct {
	sync.Mutex
	free *workspace
}

// takeWorkspace returns one for the caller alone, until it calls giveBack.
func takeWorkspace() *workspace {
	w := &workspaces
	w.Lock()
	s := w.free
	if s != nil {
		w.free = s.next
	}
	w.Unlock()
	if s == nil {
		s = newWorkspace()
	}
	return s
}

func (s *workspace) giveBack() {
	w := &workspaces
	w.Lock()
	s.next, w.free = w.free, s
	w.Unlock()
}

// newWorkspace makes the parts that products need.
func newWorkspace() *workspace {
	const a, b, rows = maxRows * blockK, maxCols * blockK, maxLanes * blockK
	all := aligned(a + b + rows)
	return &workspace{a: all[:a:a], b: all[a : a+b : a+b], rows: all[a+b:]}
}

// line is the elements of a cache line.
const line = 16

// aligned makes n elements that start at a cache line.
func aligned(n int) []float32 {
	all := make([]float32, n+line)
	for uintptr(unsafe.Pointer(&all[0]))%(line*4) != 0 {
		all = all[1:]
	}
	return all[:n:n]
}

// spare is memory to cut pieces from.
type arena []float32

// more is memory for some pieces, at most eight, of n elements in all. It
// stays with the workspace and only grows.
func (s *workspace) arena(n int) arena {
	n += 8 * line
	if len(s.extra) < n {
		s.extra = aligned(n)
	}
	return s.extra
}

// cut takes a piece of n elements that starts at a cache line.
func (s *arena) cut(n int) []float32 {
	piece := (*s)[:n:n]
	*s = (*s)[ceilDiv(n, line)*line:]
	return piece
}
