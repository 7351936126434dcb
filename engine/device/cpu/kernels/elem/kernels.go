package elem

import "github.com/berth-ml/berth/engine/device"

// Kernels are the constructors of this package's kernels.
var Kernels = device.MergeKernels(elementwiseKernels, selectKernels, binaryKernels, scaledPairKernels, movementKernels, castKernels, updateKernels, averagedKernels, rangedKernels, dropoutKernels)
