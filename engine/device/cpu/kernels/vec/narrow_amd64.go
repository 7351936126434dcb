package vec

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
