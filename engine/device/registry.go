package device

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/graph"
)

// OpenOptions says which devices of a kind to open.
type OpenOptions struct {
	Count       int   // number of devices, at least 1
	Threads     int   // worker threads over all of them; 0 means one per core
	MemoryBytes int64 // budget of each in bytes; 0 means an equal part of a share of the available memory
	// Each is nil, or has a Share for each device. What it gives no number for
	// comes from Threads and MemoryBytes.
	Each []Share
	// Shared lets several devices of a kind be one physical device, where there are
	// fewer of these. Kinds that divide the host up always do.
	Shared bool
	// Prefix comes before the ID of each device: with "1/", one is 1/cpu:0.
	Prefix string
	Among  int  // processes that divide the available memory of the machine; 0: this one has it alone
	Sync   bool // a launch returns once it has ended: for debugging
	Keep   int  // executables that each device keeps though nobody uses them: those that were used last

	// OnSpan, if not nil, is told of every operation of every stream as it ends,
	// from the stream's goroutine.
	OnSpan func(Span)
	// WantSpans is asked when a stream is opened whether OnSpan is told of it. Nil means of
	// every stream. A kind need not ask.
	WantSpans func(stream string) bool
	// OnKernel, if not nil, is told of the kernels of a launch as they end, from the
	// stream's goroutine, by devices that run kernels one after the other.
	OnKernel func(KernelSpan)
	// WantKernels is asked at each launch whether OnKernel is told of its kernels. Nil
	// means always.
	WantKernels func() bool
}

// Check refuses numbers that no kind can follow. Open and the kinds call it.
func (o OpenOptions) Check() error {
	switch {
	case o.Count < 1:
		return fmt.Errorf("%d devices: open at least 1", o.Count)
	case o.Threads < 0:
		return fmt.Errorf("%d threads: give a positive number, or 0 for one per core", o.Threads)
	case o.MemoryBytes < 0:
		return fmt.Errorf("a budget of %d bytes: give a positive number, or 0 for a share of the available memory", o.MemoryBytes)
	case o.Among < 0:
		return fmt.Errorf("the memory is divided among %d processes: give a positive number, or 0 for one", o.Among)
	case o.Keep < 0:
		return fmt.Errorf("%d executables to keep: give a positive number, or 0 for none", o.Keep)
	case o.Each != nil && len(o.Each) != o.Count:
		return fmt.Errorf("%d shares for %d devices: give one for each, or none", len(o.Each), o.Count)
	}
	for i, s := range o.Each {
		if s.Threads < 0 || s.MemoryBytes < 0 {
			return fmt.Errorf("device %d: %d threads and %d bytes: give positive numbers, or 0 for a part of the rest", i, s.Threads, s.MemoryBytes)
		}
	}
	return nil
}

// Work is the work of a kernel: one node, or several in one pass. A kernel has
// the same Work whenever it runs, and nobody changes it.
type Work struct {
	Name  string // "matmul+add+relu"
	Nodes []*graph.Node
	Cost  graph.Cost // with the bytes that enter or leave the kernel
}

// Span is the time of one queued operation.
type Span struct {
	Device     ID
	Stream     string
	What       string // "copy-in", "copy-out", "peer", or the name of the graph that was launched
	Start, End time.Time
	Waited     time.Duration // of that time, a launch waited for copies of its inputs
	Event      Event         // of its end; zero for what no stream runs
}

// KernelSpan is the time of one kernel.
type KernelSpan struct {
	Work       *Work
	Launch     Event // the end of the launch that the kernel is a part of
	Start, End time.Time
}

// ComputeStream is the Span.Stream of the launches of a program.
const ComputeStream = "compute"

// Opener opens devices of one kind, numbered from 0.
type Opener func(o OpenOptions) ([]Device, error)

// Lister describes the physical devices of one kind without opening them. Its error
// tells of devices that cannot be used, and is an ErrAbsent where none can be.
type Lister func() ([]Spec, error)

// Describer makes a device of a description, such as that of another process. It tells what the device supports, and
// the memory that segments take there, and has no memory of its own: nothing runs on it. The caller closes it.
type Describer func(s Spec) (Device, error)

var (
	mu         sync.Mutex
	kinds      = map[string]Opener{}
	listers    = map[string]Lister{}
	describers = map[string]Describer{}
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

// RegisterLister makes List describe the devices of a kind. Kinds of which a machine
// may have any number call it from init.
func RegisterLister(kind string, list Lister) {
	mu.Lock()
	defer mu.Unlock()
	listers[kind] = list
}

// RegisterDescriber makes a kind available to Describe. Kinds whose devices several processes may use together call it
// from init.
func RegisterDescriber(kind string, describe Describer) {
	mu.Lock()
	defer mu.Unlock()
	describers[kind] = describe
}

// Describe makes a device of a description, as a [Describer] does.
func Describe(s Spec) (Device, error) {
	mu.Lock()
	describe := describers[s.Kind]
	mu.Unlock()
	if describe == nil {
		return nil, fmt.Errorf("%s: %w: devices of kind %q cannot be planned for without one: take another kind", s.ID, ErrKind, s.Kind)
	}
	return describe(s)
}

// List describes the physical devices of a kind, as a Lister does; of a kind without
// one, its first device.
func List(kind string) ([]Spec, error) {
	mu.Lock()
	list := listers[kind]
	mu.Unlock()
	if list != nil {
		return list()
	}
	devs, err := Open(kind, OpenOptions{Count: 1})
	if err != nil {
		return nil, err
	}
	return []Spec{devs[0].Spec()}, devs[0].Close()
}

// Kinds lists the registered kinds in alphabetical order.
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
		return nil, fmt.Errorf("%w: %q is none of %s (null computes nothing)", ErrKind, kind, strings.Join(Kinds(), ", "))
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return open(o)
}
