package rows

import "github.com/berth-ml/berth/engine/device"

// Kernels are the constructors of this package's kernels.
var Kernels = device.MergeKernels(reduceKernels, squareKernels, softmaxKernels, lossKernels, countKernels, normKernels, gatherKernels, generateKernels, rotaryKernels, sampleKernels, lengthKernels, dynamicKernels)
