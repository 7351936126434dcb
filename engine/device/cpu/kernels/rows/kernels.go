package rows

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// Kernels are the constructors of this package's kernels.
var Kernels = work.Merge(reduceKernels, squareKernels, softmaxKernels, lossKernels, countKernels, normKernels, gatherKernels, generateKernels, sampleKernels)
