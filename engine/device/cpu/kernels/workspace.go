package kernels

import (
	"sync"
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/blas"
)

// workspace is the packing memory of one chunk: a panel of A, a block of B,
// and rows on their way to being transposed.
type workspace struct {
	a, b, rows []float32
	call       blas.Call
	next       *workspace
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

// newWorkspace aligns each part to a cache line.
func newWorkspace() *workspace {
	const a, b, rows, line = maxRows * blockK, maxCols * blockK, maxLanes * blockK, 16
	all := make([]float32, a+b+rows+line)
	for uintptr(unsafe.Pointer(&all[0]))%(line*4) != 0 {
		all = all[1:]
	}
	return &workspace{a: all[:a:a], b: all[a : a+b : a+b], rows: all[a+b : a+b+rows]}
}
