package device

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/graph"
)

// OpenOptions is how a kind's devices are opened.
type OpenOptions struct {
	Count       int        // how many devices of the kind, at least 1
	Threads     int        // worker threads over all of them; 0 means all the machine has
	MemoryBytes int64      // byte budget of each; 0 means what the machine has, divided
	Sync        bool       // finish each operation before the next is queued: for debugging
	OnSpan      func(Span) // told of every operation of every stream as it ends, from the stream's goroutine; nil for none

	// OnKernel is told of every kernel as it ends, from the stream's goroutine,
	// by devices that run kernels one after the other; nil for none.
	OnKernel func(w *Work, took time.Duration)
}

// Work is what a kernel computes: one node, or several in one pass. It is the
// same one whenever the kernel runs, and nobody changes it.
type Work struct {
	Name  string // "matmul+add+relu"
	Nodes []*graph.Node
	Cost  graph.Cost // bytes are those that enter or leave it
}

// Span is when one queued operation ran.
type Span struct {
	Device     ID
	Stream     string
	What       string // "copy-in", "copy-out", "peer", or the name of what was launched
	Start, End time.Time
}

// Opener opens devices of one kind, numbered from 0.
type Opener func(o OpenOptions) ([]Device, error)

var (
	mu    sync.Mutex
	kinds = map[string]Opener{}
)

// Register makes a kind available to Open. Kinds call it from init.
func Register(kind string, open Opener) {
	mu.Lock()
	defer mu.Unlock()
	if _, dup := kinds[kind]; dup {
		panic("BUG: device kind " + kind + " is registered twice")
	}
	kinds[kind] = open
}

// Kinds lists the registered kinds in order.
func Kinds() []string {
	mu.Lock()
	defer mu.Unlock()
	ks := make([]string, 0, len(kinds))
	for k := range kinds {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// Open opens devices of a kind. The caller closes each.
func Open(kind string, o OpenOptions) ([]Device, error) {
	mu.Lock()
	open := kinds[kind]
	mu.Unlock()
	if open == nil {
		return nil, fmt.Errorf("%w: %q: there are %s", ErrKind, kind, strings.Join(Kinds(), ", "))
	}
	if o.Count < 1 {
		return nil, fmt.Errorf("device count %d: at least 1 is needed", o.Count)
	}
	return open(o)
}
