package streams

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// Config is what a kind of device brings.
type Config struct {
	Spec device.Spec // New sets CopyOut
	// Options are those with which the kind is opened. Sync, Keep, OnSpan and WantSpans
	// count; threads and memory are the kind's to share out.
	Options device.OpenOptions
	// RunsHere says that a launch can run on any goroutine. Streams are then
	// device.Runners.
	RunsHere bool
	Alone    bool // each op is a step of its own, for kinds without kernels of several ops

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

// Addressed is a Memory that the host addresses.
type Addressed interface {
	// Bytes is a range of it.
	Bytes(off, size int64) []byte
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
	// Load tells where it got the kernels: the slowest source of them. It ends with
	// stop's error, if stop is not nil and gives one.
	Load(stop func() error) (device.Source, error)
	// Find tells where Load would get the kernels. loaded is the names of kernels that
	// count as loaded; Find adds the program's.
	Find(loaded map[string]bool) device.Source
}

// Program is a plan that a device can run. One goroutine at a time uses it.
type Program interface {
	// ScratchBytes is the scratch that a launch needs, for the plan's temporaries
	// and for the kernels.
	ScratchBytes() int64
	// Run runs the program on the buffers of a launch, and returns once it has
	// ended. It calls Launch.Await before each step of the plan, and ends with
	// Await's error. After a step it can call Launch.Completed; otherwise the
	// outputs are ready when the launch has ended. A panic is an error of Run.
	Run(l *Launch) error
}

// KernelTimes is who hears the times of kernels, as in device.OpenOptions.
type KernelTimes struct {
	OnKernel    func(device.KernelSpan)
	WantKernels func() bool
}

// TimesOf is who hears the times of the kernels of devices that are opened so.
func TimesOf(o device.OpenOptions) KernelTimes { return KernelTimes{o.OnKernel, o.WantKernels} }

// Wanted tells whether a launch is to tell the times of its kernels. A program asks once
// a launch.
func (t KernelTimes) Wanted() bool {
	return t.OnKernel != nil && (t.WantKernels == nil || t.WantKernels())
}

// Tell tells the time of a cluster's kernels, which have ended. work is nil before the
// first call for the cluster, which makes it.
func (t KernelTimes) Tell(l *Launch, c *fuse.Cluster, work **device.Work, start time.Time) {
	end := time.Now()
	if *work == nil {
		*work = &device.Work{Name: c.Name(), Nodes: c.Nodes, Cost: c.Cost()}
	}
	t.OnKernel(device.KernelSpan{Work: *work, Launch: l.Event(), Start: start, End: end})
}
