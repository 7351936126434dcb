package work

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/graph"
)

// Kernel runs one node. It keeps its arguments in its fields while it runs, so
// an instance is for one goroutine at a time, and a run allocates nothing.
type Kernel interface {
	// ScratchBytes is the working memory that Run needs.
	ScratchBytes() int64
	// Run computes the outputs. Wrong data (an id outside a table) is an error; the
	// outputs are then undefined.
	Run(p Pool, a *Args) error
}

// Args is the memory of one run: the node's inputs and outputs in order, and
// ScratchBytes of working memory with undefined contents. Each is contiguous and 64-byte
// aligned. An output may be the very memory of an input where the op's Alias says so.
type Args struct {
	In, Out [][]byte
	Scratch []byte
	// Cache is memory for the kernel's [PackCache], or nil. Cached says that an earlier
	// run has packed the same input there.
	Cache  []byte
	Cached bool
}

// PackCache describes an input that a kernel reads in packed form, and that can stay
// packed from run to run. Kernels with equal layouts pack the same input to the same
// bytes.
type PackCache struct {
	Input  int
	Bytes  int64 // of the packed input; 0 where there is none
	Layout string
}

// Epilogue goes on with a kernel's output piece by piece, while a piece is in
// the cache.
type Epilogue interface {
	// After gets rows i0..i1 and columns j0..j1 of the first output, as a matrix of all
	// its rows by its last dimension, or for images by its last two. They are final, and
	// each element is in one piece of a run. After may read and write them. How the output
	// is cut into pieces depends on the number of threads too, so no result may depend on
	// it. Several threads call it at the same time, each with a piece of its own.
	After(i0, i1, j0, j1 int)
}

// Follower is a kernel that an epilogue can follow.
type Follower interface {
	Kernel
	// Then makes every later run call e for all of its output; nil ends that. An
	// output without elements has no pieces.
	Then(e Epilogue)
}

// Target is the machine that kernels are made for.
type Target struct {
	ISA isa.ISA
	// Pairs makes products of bfloat16 take AVX512_BF16 with [AVX512].
	Pairs bool
}

// TargetOf is an instruction set of this CPU.
func TargetOf(set isa.ISA) Target { return Target{ISA: set, Pairs: isa.PairsPay()} }

// Constructor binds a node's attributes and shapes to a kernel.
type Constructor func(n *graph.Node, on Target) (Kernel, error)

// Table holds constructors by name.
type Table = device.Kernels[Constructor]

// New is the constructor that finds a node's own in a table. It fails with
// [device.ErrUnsupported] and the reason where there is none.
func New(t Table) Constructor {
	return func(n *graph.Node, on Target) (Kernel, error) {
		c, err := t.Find(n)
		if err != nil {
			return nil, err
		}
		k, err := c(n, on)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", device.ErrUnsupported, device.KernelName(n), err)
		}
		return k, nil
	}
}
