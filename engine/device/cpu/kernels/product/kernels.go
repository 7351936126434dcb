package product

import "github.com/berth-ml/berth/engine/device"

// Kernels are the constructors of this package's kernels.
var Kernels = device.MergeKernels(matmulKernels, convKernels, attentionKernels, cachedAttentionKernels)
