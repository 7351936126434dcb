package rows

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// rig makes this package's kernels.
var rig = kernelstest.Rig{On: work.TargetOf(isa.Best()), New: work.New(Kernels)}
