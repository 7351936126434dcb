package vec

// matrix is all elements from the first of rows of n, stride apart, to the last: all of
// them must be memory.
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
