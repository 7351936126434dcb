package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// Kernels are the constructors of this package's kernels.
var Kernels = work.Merge(matmulKernels, convKernels, attentionKernels, cachedAttentionKernels)
