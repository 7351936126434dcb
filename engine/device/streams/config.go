package streams

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/graph"
)

// Config is what a kind of device brings.
type Config struct {
	Spec device.Spec // New sets CopyOut
	Sync bool        // a launch returns once it has ended
	// OnSpan, if not nil, is told of every operation as it ends.
	OnSpan func(device.Span)

	// Reserve takes the device's memory, all of its budget. If Reserve is nil,
	// memory is only counted, and copies move nothing.
	Reserve func(bytes int64) (Memory, error)
	Host    HostMemory

	// Bind makes a program of a plan. If Bind is nil the device computes nothing,
	// and nothing can be copied out.
	Bind func(p *planner.Plan, o device.CompileOptions) (Program, error)
	// Supports tells whether Bind has a kernel for a node, and if not, why.
	Supports func(n *graph.Node) error

	// Stop, if not nil, is called once, after the last stream and the last Compile have
	// ended and before the memory is closed. Its error is Close's.
	Stop func() error
}

// Memory is a device's memory, by offset; all numbers are in bytes. The goroutines
// of streams call it, and none for a range that another one is writing.
type Memory interface {
	// Back makes a range usable, and reports whether the system has the memory.
	Back(off, size int64) bool
	// CopyIn copies src to the memory at off. It returns once that has ended, as do
	// the other copies.
	CopyIn(off int64, src []byte) error
	// CopyOut copies the memory at off to dst.
	CopyOut(dst []byte, off int64) error
	// Move copies within the memory. The two ranges may overlap.
	Move(to, from, size int64) error
	// CopyFrom copies from the memory of another device of the kind.
	CopyFrom(to int64, other Memory, from, size int64) error
	// Close gives the memory back.
	Close() error
}

// HostMemory is the host memory from which a device copies fastest.
type HostMemory interface {
	// Map takes at least n bytes, page-aligned and zeroed.
	Map(n int64) ([]byte, error)
	// Unmap gives back all that Map gave.
	Unmap(mapped []byte) error
}

// Loader is a Program with work that Compile does and Estimate does not, such as the
// compiling of kernels. Load can be called again after it has failed.
type Loader interface {
	// Load ends with stop's error, if stop is not nil and gives one.
	Load(stop func() error) error
}

// Program is a plan that a device can run. One goroutine at a time uses it.
type Program interface {
	// ScratchBytes is the scratch that a launch needs, for the plan's temporaries
	// and for the kernels.
	ScratchBytes() int64
	// Run runs the program on the buffers of a launch, and returns once it has
	// ended. Before it first overwrites donated input j, it calls AwaitWrite(j).
	Run(l *Launch) error
}
