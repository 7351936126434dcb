package graph

import "github.com/berth-ml/berth/engine/shape"

// Computer is an op that brings its own kernel, as the ops of other modules do. Devices
// whose memory is the host's run it in one thread.
type Computer interface {
	Op
	// Compute writes the outputs from the inputs, whose contents it leaves alone. It
	// must depend on them and the op alone, keep none of the memory, and may run at the
	// same time for several nodes. It should allocate nothing. Outputs have undefined
	// contents at first. An error, or a panic, ends the run.
	Compute(in, out []Tensor) error
}

// Mapper is an elementwise op that brings its own kernel: it has one output and one or
// two inputs, all float32 of one shape. Devices run it piece by piece, in several
// threads, and fuse it with other elementwise ops.
type Mapper interface {
	Op
	// Map writes y[i] from a[i] and, with two inputs, b[i]; b is nil with one. All have
	// the length of y. y may be the very memory of a or b: nothing may be read once
	// its element of y is written. Otherwise it is as Computer.Compute.
	Map(y, a, b []float32)
}

// Tensor is the contents of an input or output while an op computes: F for Float32, I for
// Int32, in row-major order. The other is nil.
type Tensor struct {
	Meta shape.Meta
	F    []float32
	I    []int32
}

// Maps reports whether a node's op is a Mapper whose inputs and output are as it needs
// them.
func Maps(n *Node) bool {
	if _, ok := n.Op.(Mapper); !ok || len(n.Out) != 1 || len(n.In) < 1 || len(n.In) > 2 {
		return false
	}
	for _, v := range n.In {
		if !v.Meta.Equal(n.Out[0].Meta) || v.Meta.DType != shape.Float32 {
			return false
		}
	}
	return true
}

// BringsKernel reports whether an op is a Computer or a Mapper.
func BringsKernel(op Op) bool {
	switch op.(type) {
	case Computer, Mapper:
		return true
	}
	return false
}
