package vec

import "github.com/berth-ml/berth/engine/device/cpu/kernels/asm"

var avx512Columns = Columns{
	SumRows: foldRows(asm.SumRows512), MaxRows: foldRows(asm.MaxRows512),
	SumEach: foldEach(asm.SumEach512), MaxEach: foldEach(asm.MaxEach512),
	SquaresRows: squaresOf(asm.SquaresRows512), DotRows: dotRowsOf(asm.DotRows512),
	ScaleRows: scaleOf(asm.ScaleRows512), ScaleGrad: scaleGradOf(asm.ScaleGradRows512),
	FirstRows: firstOf(asm.FirstRows512),
}

var avx2Columns = Columns{
	SumRows: foldRows(asm.SumRows2), MaxRows: foldRows(asm.MaxRows2),
	SumEach: foldEach(asm.SumEach2), MaxEach: foldEach(asm.MaxEach2),
	SquaresRows: squaresOf(asm.SquaresRows2), DotRows: dotRowsOf(asm.DotRows2),
	ScaleRows: scaleOf(asm.ScaleRows2), ScaleGrad: scaleGradOf(asm.ScaleGradRows2),
	FirstRows: firstOf(asm.FirstRows2),
}

// matrix is the elements of rows of n, stride apart: what must be memory.
func matrix(x []float32, stride, rows, n int) []float32 { return x[:(rows-1)*stride+n] }

func foldRows(f func(acc *float64, x *float32, stride, rows, n int)) func(acc []float64, x []float32, stride, rows int) {
	return func(acc []float64, x []float32, stride, rows int) {
		if n := len(acc); rows > 0 && n > 0 {
			f(&acc[0], &matrix(x, stride, rows, n)[0], stride, rows, n)
		}
	}
}

func foldEach(f func(acc *float64, x *float32, stride, rows, n int)) func(acc []float64, x []float32, stride, n int) {
	return func(acc []float64, x []float32, stride, n int) {
		if rows := len(acc); rows > 0 && n > 0 {
			f(&acc[0], &matrix(x, stride, rows, n)[0], stride, rows, n)
		}
	}
}

func squaresOf(f func(acc, means *float64, x *float32, stride, rows, n int)) func(acc, means []float64, x []float32, stride, rows int) {
	return func(acc, means []float64, x []float32, stride, rows int) {
		if n := len(acc); rows > 0 && n > 0 {
			f(&acc[0], &means[:n][0], &matrix(x, stride, rows, n)[0], stride, rows, n)
		}
	}
}

func dotRowsOf(f func(acc, means *float64, x, y *float32, stride, rows, n int)) func(acc, means []float64, x, y []float32, stride, rows int) {
	return func(acc, means []float64, x, y []float32, stride, rows int) {
		if n := len(acc); rows > 0 && n > 0 {
			f(&acc[0], &means[:n][0], &matrix(x, stride, rows, n)[0], &matrix(y, stride, rows, n)[0], stride, rows, n)
		}
	}
}

func scaleOf(f func(y, x, mean, rest, factor, shift *float32, stride, rows, n int)) func(y, x, mean, rest, factor, shift []float32, stride, rows int) {
	return func(y, x, mean, rest, factor, shift []float32, stride, rows int) {
		if n := len(mean); rows > 0 && n > 0 {
			f(&matrix(y, stride, rows, n)[0], &matrix(x, stride, rows, n)[0],
				&mean[0], &rest[:n][0], &factor[:n][0], &shift[:n][0], stride, rows, n)
		}
	}
}

func scaleGradOf(f func(dx, x, dy, mean, offset, slope, factor *float32, stride, rows, n int)) func(dx, x, dy, mean, offset, slope, factor []float32, stride, rows int) {
	return func(dx, x, dy, mean, offset, slope, factor []float32, stride, rows int) {
		if n := len(mean); rows > 0 && n > 0 {
			f(&matrix(dx, stride, rows, n)[0], &matrix(x, stride, rows, n)[0], &matrix(dy, stride, rows, n)[0],
				&mean[0], &offset[:n][0], &slope[:n][0], &factor[:n][0], stride, rows, n)
		}
	}
}

func firstOf(f func(y, x, most, dy *float32, stride, rows, n int)) func(y, x, most, dy []float32, stride, rows int) {
	return func(y, x, most, dy []float32, stride, rows int) {
		if n := len(most); rows > 0 && n > 0 {
			f(&matrix(y, stride, rows, n)[0], &matrix(x, stride, rows, n)[0], &most[0], &dy[:n][0], stride, rows, n)
		}
	}
}
