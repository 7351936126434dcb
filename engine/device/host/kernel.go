package host

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
)

// Kernel computes one cluster. One goroutine at a time runs it.
type Kernel interface {
	// ScratchBytes is the working memory that Run needs.
	ScratchBytes() int64
	// Run computes out from in. All memory is contiguous and aligned to 64
	// bytes. out[i] may be the memory of an input if the cluster's Alias says
	// so. The contents of scratch are undefined.
	Run(in, out [][]byte, scratch []byte) error
}

// Packer is a Kernel that packs one input: it reads it in an order of its own.
// The device can keep the packed copy for later runs.
type Packer interface {
	Kernel
	// Packs states the input that is packed, the bytes of its packed copy, and
	// the layout. Kernels with equal layouts make equal copies of equal inputs.
	// With 0 bytes there is nothing to keep.
	Packs() (input int, bytes int64, layout string)
	// UsePacked gives the next run memory for the packed copy. If valid, the
	// copy is there already; otherwise the run makes it there. With nil memory
	// the run packs in its own scratch.
	UsePacked(memory []byte, valid bool)
}

// Config makes a kind of device.
type Config struct {
	Spec device.Spec // New sets CopyOut
	Sync bool        // a launch returns once it has ended
	// OnSpan, if not nil, is told of every operation as it ends.
	OnSpan func(device.Span)
	// OnKernel and WantKernels are those of device.OpenOptions.
	OnKernel    func(device.KernelSpan)
	WantKernels func() bool
	// Bind makes the kernel of a cluster, or fails with device.ErrUnsupported.
	// If Bind is nil the device computes nothing: memory is only counted,
	// copies move nothing, and nothing can be copied out.
	Bind func(c *fuse.Cluster) (Kernel, error)
	// Stop, if not nil, is called once, after the last stream has ended.
	Stop func()
}
