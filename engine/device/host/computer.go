package host

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// bind makes the kernel of a cluster: the kind's own, or else that which the op brings.
func (c *Config) bind(of *fuse.Cluster) (Kernel, error) {
	k, err := c.Bind(of)
	if err == nil || !errors.Is(err, device.ErrUnsupported) || len(of.Nodes) > 1 {
		return k, err
	}
	switch n := of.Nodes[0]; op := n.Op.(type) {
	case graph.Computer:
		return newComputer(op, n)
	case graph.Mapper:
		if graph.Maps(n) {
			return mapper{op}, nil
		}
		return nil, fmt.Errorf("%w: the op %s has a method Map, which takes one or two float32 inputs of its output's shape: give it a method Compute instead",
			device.ErrUnsupported, op.Kind())
	}
	return nil, err
}

// computer is the kernel of a graph.Computer.
type computer struct {
	op      graph.Computer
	in, out []graph.Tensor
}

func newComputer(op graph.Computer, n *graph.Node) (*computer, error) {
	k := &computer{op: op, in: make([]graph.Tensor, len(n.In)), out: make([]graph.Tensor, len(n.Out))}
	for i, m := range append(graph.Metas(n.In), graph.Metas(n.Out)...) {
		if m.DType != shape.Float32 && m.DType != shape.Int32 {
			return nil, fmt.Errorf("%w: the op %s has a tensor %v: use f32 or i32", device.ErrUnsupported, op.Kind(), m)
		}
		if i < len(k.in) {
			k.in[i].Meta = m
		} else {
			k.out[i-len(k.in)].Meta = m
		}
	}
	return k, nil
}

// ScratchBytes implements Kernel.
func (k *computer) ScratchBytes() int64 { return 0 }

// Run implements Kernel.
func (k *computer) Run(in, out [][]byte, _ []byte) error {
	point(k.in, in)
	point(k.out, out)
	return k.op.Compute(k.in, k.out)
}

// point makes tensors views of memory.
func point(ts []graph.Tensor, memory [][]byte) {
	for i := range ts {
		t := &ts[i]
		if n := t.Meta.Elems(); t.Meta.DType == shape.Int32 {
			t.I = shape.View[int32](memory[i])[:n:n]
		} else {
			t.F = shape.View[float32](memory[i])[:n:n]
		}
	}
}

// mapper is the kernel of a graph.Mapper in one thread, for kinds without another.
type mapper struct{ op graph.Mapper }

// ScratchBytes implements Kernel.
func (k mapper) ScratchBytes() int64 { return 0 }

// Run implements Kernel.
func (k mapper) Run(in, out [][]byte, _ []byte) error {
	var b []float32
	if len(in) > 1 {
		b = shape.View[float32](in[1])
	}
	k.op.Map(shape.View[float32](out[0]), shape.View[float32](in[0]), b)
	return nil
}
