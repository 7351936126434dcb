package streams

import "github.com/berth-ml/berth/engine/device"

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
