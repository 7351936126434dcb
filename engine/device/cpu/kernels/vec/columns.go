package vec

func sumRows(acc []float64, x []float32, stride, rows int) {
	for r := range rows {
		for j, v := range x[r*stride:][:len(acc)] {
			acc[j] += float64(v)
		}
	}
}

func maxRows(acc []float64, x []float32, stride, rows int) {
	for r := range rows {
		for j, v := range x[r*stride:][:len(acc)] {
			if w := float64(v); w > acc[j] || w != w {
				acc[j] = w
			}
		}
	}
}

func squaresRows(acc, means []float64, x []float32, stride, rows int) {
	means = means[:len(acc)]
	for r := range rows {
		for j, v := range x[r*stride:][:len(acc)] {
			d := float64(v) - means[j]
			acc[j] += d * d
		}
	}
}

func dotRows(acc, means []float64, x, y []float32, stride, rows int) {
	means = means[:len(acc)]
	for r := range rows {
		row := y[r*stride:][:len(acc)]
		for j, v := range x[r*stride:][:len(acc)] {
			acc[j] += (float64(v) - means[j]) * float64(row[j])
		}
	}
}

func scaleRows(y, x, mean, rest, factor, shift []float32, stride, rows int) {
	n := len(mean)
	rest, factor, shift = rest[:n], factor[:n], shift[:n]
	for r := range rows {
		out := y[r*stride:][:n]
		for j, v := range x[r*stride:][:n] {
			out[j] = (v-mean[j]-rest[j])*factor[j] + shift[j]
		}
	}
}

func scaleGradRows(dx, x, dy, mean, offset, slope, factor []float32, stride, rows int) {
	n := len(mean)
	offset, slope, factor = offset[:n], slope[:n], factor[:n]
	for r := range rows {
		out, d := dx[r*stride:][:n], dy[r*stride:][:n]
		for j, v := range x[r*stride:][:n] {
			out[j] = (d[j] - offset[j] - (v-mean[j])*slope[j]) * factor[j]
		}
	}
}

func firstRows(y, x, most, dy []float32, stride, rows int) {
	for j, m := range most {
		found := false
		for r := range rows {
			at := r*stride + j
			y[at] = 0
			if !found && x[at] == m {
				y[at], found = dy[j], true
			}
		}
	}
}

func sumEach(acc []float64, x []float32, stride, n int) {
	for r := range acc {
		acc[r] += sum(x[r*stride:][:n])
	}
}

func maxEach(acc []float64, x []float32, stride, n int) {
	for r, m := range acc {
		for _, v := range x[r*stride:][:n] {
			if w := float64(v); w > m || w != w {
				m = w
			}
		}
		acc[r] = m
	}
}

func mulFrom(y, a, b []float32, c float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = v * (b[i] - c)
	}
}

func lessExp(y, a, b []float32, c float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = float32(float64(b[i]) - Exp64(float64(v))*float64(c))
	}
}
