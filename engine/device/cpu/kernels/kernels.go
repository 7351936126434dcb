package kernels

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/elem"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/pooling"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/product"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/rows"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
)

// table holds the constructors of all ops.
var table = device.MergeKernels(elem.Kernels, pooling.Kernels, product.Kernels, rows.Kernels)

// Names lists the names of all kernels, as [device.Kernels] has them.
func Names() []string { return table.Names() }

// New makes the kernel of a node. It fails with [device.ErrUnsupported] and the
// reason where there is none.
func New(n *graph.Node, on work.Target) (work.Kernel, error) {
	if graph.Maps(n) {
		return elem.NewMap(n), nil
	}
	return work.New(table)(n, on)
}
