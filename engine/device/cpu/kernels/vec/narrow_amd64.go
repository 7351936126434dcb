package vec

import "github.com/berth-ml/berth/engine/device/cpu/kernels/asm"

var avx512Narrow = Narrow{
	Softmax: narrowOf(asm.NarrowSoftmax512, 16), LogSoftmax: narrowOf(asm.NarrowLogSoftmax512, 16),
	SoftmaxGrad: narrowOf(asm.NarrowSoftmaxGrad512, 16), LogSoftmaxGrad: narrowOf(asm.NarrowLogSoftmaxGrad512, 16),
}

var avx2Narrow = Narrow{
	Softmax: narrowOf(asm.NarrowSoftmax2, 8), LogSoftmax: narrowOf(asm.NarrowLogSoftmax2, 8),
	SoftmaxGrad: narrowOf(asm.NarrowSoftmaxGrad2, 8), LogSoftmaxGrad: narrowOf(asm.NarrowLogSoftmaxGrad2, 8),
}

func narrowOf(f func(y, a, b *float32, rows, n int), lanes int) func(y, a, b []float32, n int) bool {
	return func(y, a, b []float32, n int) bool {
		if n > lanes {
			return false
		}
		if size := len(y); size > 0 {
			f(&y[0], &a[:size][0], &b[:size][0], size/n, n)
		}
		return true
	}
}
