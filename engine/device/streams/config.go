package streams

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
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
