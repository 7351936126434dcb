package product

import (
	"sync"
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// workspace is the memory of one chunk: packed panels of A, a packed block of B, and rows
// on their way to being transposed. extra is memory of any size ([workspace.arena]).
type workspace struct {
	a, b, rows, extra []float32
	config            tileConfig
	unsplittable      unsplittable
	next              *workspace
}

// workspaces are those that no chunk uses. As many exist as chunks ever packed at the
// same time, which is the number of threads, and they stay, as threads' stacks do. The
// last one given back is taken first: mostly it is still in the thread's cache.
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

// newWorkspace makes the memory that products need.
func newWorkspace() *workspace {
	const a, b, rows = maxRows * blockK, maxCols * blockK, maxLanes * blockK
	all := aligned(a + b + rows)
	return &workspace{a: all[:a:a], b: all[a : a+b : a+b], rows: all[a+b:]}
}

// aligned makes n elements that start at a cache line.
func aligned(n int) []float32 {
	all := make([]float32, n+line)
	for uintptr(unsafe.Pointer(&all[0]))%(line*4) != 0 {
		all = all[1:]
	}
	return all[:n:n]
}

// arena is memory to cut pieces from.
type arena []float32

// arena is memory for at most eight pieces, of n elements in all. The next call may
// return the same memory. It stays with the workspace and only grows.
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
	*s = (*s)[work.CeilDiv(n, line)*line:]
	return piece
}
