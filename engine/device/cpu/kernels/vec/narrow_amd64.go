package vec

import "github.com/berth-ml/berth/engine/device/cpu/kernels/asm"

var avx512Narrow = Narrow{
	Softmax: narrowOne(asm.NarrowSoftmax512, 4*16), SoftmaxGrad: narrowTwo(asm.NarrowSoftmaxGrad512, 4*16),
	LogSoftmaxGrad: narrowTwo(asm.NarrowLogSoftmaxGrad512, 4*16),
	ExpSums:        narrowSums(asm.NarrowExpSums512, 4*16), Minus: narrowMinus(asm.NarrowMinus512, 4*16),
}

var avx2Narrow = Narrow{
	Softmax: narrowOne(asm.NarrowSoftmax2, 4*8), SoftmaxGrad: narrowTwo(asm.NarrowSoftmaxGrad2, 4*8),
	LogSoftmaxGrad: narrowTwo(asm.NarrowLogSoftmaxGrad2, 4*8),
	ExpSums:        narrowSums(asm.NarrowExpSums2, 4*8), Minus: narrowMinus(asm.NarrowMinus2, 4*8),
}

func narrowOne(f func(y, x *float32, rows, n int), widest int) func(y, x, _ []float32, n int) bool {
	return func(y, x, _ []float32, n int) bool {
		if size := len(y); size > 0 && n <= widest {
			f(&y[0], &x[:size][0], size/n, n)
		}
		return n <= widest
	}
}

func narrowTwo(f func(y, a, b *float32, rows, n int), widest int) func(y, a, b []float32, n int) bool {
	return func(y, a, b []float32, n int) bool {
		if size := len(y); size > 0 && n <= widest {
			f(&y[0], &a[:size][0], &b[:size][0], size/n, n)
		}
		return n <= widest
	}
}

func narrowSums(f func(x, most, sums *float32, rows, n int), widest int) func(most, sums, x []float32, n int) bool {
	return func(most, sums, x []float32, n int) bool {
		if rows := len(most); rows > 0 && n <= widest {
			f(&x[:rows*n][0], &most[0], &sums[:rows][0], rows, n)
		}
		return n <= widest
	}
}

func narrowMinus(f func(y, x, most, logs *float32, rows, n int), widest int) func(y, x, most, logs []float32, n int) bool {
	return func(y, x, most, logs []float32, n int) bool {
		if rows := len(most); rows > 0 && n <= widest {
			f(&y[:rows*n][0], &x[:rows*n][0], &most[0], &logs[:rows][0], rows, n)
		}
		return n <= widest
	}
}
