package berth

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/eager"
)

// OpByOp runs single ops on Devices, as a program calls them: see [eager.Context]. Its tensors
// share the devices' memory with those of the runs: where it is short, those that are not used
// soon go to the host, and come back. [Devices.OpByOp] opens it.
type OpByOp = eager.Context

// Compile makes an op of the ops that build appends for its inputs: see [eager.Compile].
func Compile(name string, build func(b *graph.Builder, in []*graph.Value) []*graph.Value) *eager.Function {
	return eager.Compile(name, build)
}
