package cl

import (
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// kernels has each name of the ops that gen writes; the text follows from the node.
var kernels = sync.OnceValue(func() device.Kernels[struct{}] {
	all := device.Kernels[struct{}]{}
	for _, kind := range gen.Kinds() {
		for _, name := range ops.KernelNames(kind) {
			all[name] = struct{}{}
		}
	}
	return all
})

func init() {
	device.RegisterKernels(Kind, func() device.KernelList {
		return device.KernelList{Names: kernels().Names(), About: "written for each shape, compiled by the driver; reshape needs none"}
	})
}

// check refuses nodes without a kernel. Views need none.
func check(nodes ...*graph.Node) error {
	for _, n := range nodes {
		if fuse.IsView(n) {
			continue
		}
		if _, err := kernels().Find(n); err != nil {
			return err
		}
	}
	return nil
}
