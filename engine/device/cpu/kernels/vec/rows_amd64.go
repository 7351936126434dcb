package vec

func sumExpOf(f func(x *float32, n int, shift float32) float64) func(x []float32, shift float32) float64 {
	return func(x []float32, shift float32) float64 {
		if len(x) == 0 {
			return 0
		}
		return f(&x[0], len(x), shift)
	}
}

func dotFromOf(f func(a, b *float32, n int, c float64) float64) func(a, b []float32, c float64) float64 {
	return func(a, b []float32, c float64) float64 {
		if len(a) == 0 {
			return 0
		}
		return f(&a[0], &b[:len(a)][0], len(a), c)
	}
}

func normalizeOf(f func(y, x, gamma, beta *float32, n int, mean, rest, rstd float32)) func(y, x, gamma, beta []float32, mean, rest, rstd float32) {
	return func(y, x, gamma, beta []float32, mean, rest, rstd float32) {
		if n := len(x); n > 0 {
			f(&y[:n][0], &x[0], &gamma[:n][0], &beta[:n][0], n, mean, rest, rstd)
		}
	}
}

func normGradSumsOf(f func(dgamma, dbeta, x, dy, gamma *float32, n int, mean, rstd float32) (sum, sumx float64)) func(dgamma, dbeta, x, dy, gamma []float32, mean, rstd float32) (sum, sumh float64) {
	return func(dgamma, dbeta, x, dy, gamma []float32, mean, rstd float32) (sum, sumh float64) {
		n := len(x)
		if n == 0 {
			return 0, 0
		}
		return f(&dgamma[:n][0], &dbeta[:n][0], &x[0], &dy[:n][0], &gamma[:n][0], n, mean, rstd)
	}
}

func normGradOf(f func(dx, x, dy, gamma *float32, n int, mean, rstd, offset, slope float32)) func(dx, x, dy, gamma []float32, mean, rstd, offset, slope float32) {
	return func(dx, x, dy, gamma []float32, mean, rstd, offset, slope float32) {
		if n := len(x); n > 0 {
			f(&dx[:n][0], &x[0], &dy[:n][0], &gamma[:n][0], n, mean, rstd, offset, slope)
		}
	}
}

func standardizeOf(f func(y, x *float32, n int, mean, rest, factor, shift float32)) func(y, x []float32, mean, rest, factor, shift float32) {
	return func(y, x []float32, mean, rest, factor, shift float32) {
		if n := len(x); n > 0 {
			f(&y[:n][0], &x[0], n, mean, rest, factor, shift)
		}
	}
}

func standardizeGradOf(f func(dx, x, dy *float32, n int, mean, offset, slope, factor float32)) func(dx, x, dy []float32, mean, offset, slope, factor float32) {
	return func(dx, x, dy []float32, mean, offset, slope, factor float32) {
		if n := len(x); n > 0 {
			f(&dx[:n][0], &x[0], &dy[:n][0], n, mean, offset, slope, factor)
		}
	}
}

func rotateOf(f func(y, x, cos, sin *float32, n int)) func(y, x, cos, sin []float32) {
	return func(y, x, cos, sin []float32) {
		if n := len(cos); n > 0 {
			f(&y[:2*n][0], &x[:2*n][0], &cos[0], &sin[:n][0], n)
		}
	}
}
