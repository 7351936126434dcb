package host

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// Config makes a kind of device whose memory is the host's.
type Config struct {
	Spec device.Spec // New sets CopyOut
	// Options are those with which the kind is opened. Threads and memory are the kind's
	// to share out.
	Options device.OpenOptions
	Alone   bool // clusters have one node, for kinds without kernels of several ops
	// Bind makes the kernel of a cluster, or fails with device.ErrUnsupported.
	// If Bind is nil the device computes nothing: memory is only counted,
	// copies move nothing, and nothing can be copied out.
	Bind func(c *fuse.Cluster) (Kernel, error)
	// Finite reports whether all of x is finite. If it is nil, the calling goroutine looks.
	// One goroutine at a time calls it.
	Finite func(x []float32) bool
	// Described says that nothing runs on the device, which then has no memory: see [device.Describer].
	Described bool
	// Stop, if not nil, is called once, after the last stream has ended.
	Stop func()
}

// New opens a device. Spec.MemoryBytes is its budget, of which it uses whole units.
func New(c Config) (*streams.Device, error) {
	of := streams.Config{Spec: c.Spec, Options: c.Options, RunsHere: true, Alone: c.Alone, Host: Mappings{}}
	if c.Stop != nil {
		of.Stop = func() error { c.Stop(); return nil }
	}
	if c.Bind != nil {
		var a *arena
		if !c.Described {
			of.Reserve = func(bytes int64) (m streams.Memory, err error) {
				a, err = newArena(bytes)
				return a, err
			}
		}
		of.Bind = func(p *planner.Plan, o device.CompileOptions) (streams.Program, error) {
			pr, err := bindPlan(p, o, c.bind)
			if err != nil {
				return nil, err
			}
			pr.arena, pr.checkFinite, pr.finite, pr.times = a, o.CheckFinite, c.Finite, streams.TimesOf(c.Options)
			return pr, nil
		}
		of.Supports = func(n *graph.Node) error {
			_, err := c.bind(fuse.Single(n))
			return err
		}
	}
	return streams.New(of)
}

// Mappings is host memory in mappings of its own.
type Mappings struct{}

// Map implements [streams.HostMemory].
func (Mappings) Map(n int64) ([]byte, error) {
	mem, err := mapAnonymous(n)
	if err == nil {
		adviseHuge(mem)
	}
	return mem, err
}

// Unmap implements [streams.HostMemory].
func (Mappings) Unmap(mapped []byte) error { return unmap(mapped) }
