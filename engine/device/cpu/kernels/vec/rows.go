package vec

import (
	"math"
	"unsafe"
)

func sumExp(x []float32, shift float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += Exp64(float64(v) - float64(shift))
	}
	return sum
}

func expScaled(y, x []float32, shift, scale float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = float32(Exp64(float64(v)-float64(shift)) * float64(scale))
	}
}

// dotFrom adds in four sums, so that additions overlap.
func dotFrom(x, y []float32, c float64) float64 {
	var s [4]float64
	y = y[:len(x)]
	for ; len(x) >= 4 && len(y) >= 4; x, y = x[4:], y[4:] {
		s[0] += (float64(x[0]) - c) * float64(y[0])
		s[1] += (float64(x[1]) - c) * float64(y[1])
		s[2] += (float64(x[2]) - c) * float64(y[2])
		s[3] += (float64(x[3]) - c) * float64(y[3])
	}
	for i, v := range x {
		s[0] += (float64(v) - c) * float64(y[i])
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

func squaredDistance(a, b []float32) float64 {
	sum := 0.0
	b = b[:len(a)]
	for i, v := range a {
		d := float64(v) - float64(b[i])
		sum += d * d
	}
	return sum
}

func logisticLoss(a, b []float32) float64 {
	sum := 0.0
	b = b[:len(a)]
	for i, v := range a {
		z := float64(v)
		sum += math.Max(z, 0) - z*float64(b[i]) + math.Log1p(Exp64(-math.Abs(z)))
	}
	return sum
}

func squaredDistanceGrad(y, a, b []float32, s float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = 2 * (v - b[i]) * s
	}
}

func logisticLossGrad(y, a, b []float32, s float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = float32((1/(1+Exp64(-float64(v))) - float64(b[i])) * float64(s))
	}
}

func normalize(y, x, gamma, beta []float32, mean, rest, rstd float32) {
	y, gamma, beta = y[:len(x)], gamma[:len(x)], beta[:len(x)]
	for i, v := range x {
		y[i] = (v-mean-rest)*rstd*gamma[i] + beta[i]
	}
}

func normGradSums(dgamma, dbeta, x, dy, gamma []float32, mean, rstd float32) (sum, sumh float64) {
	dgamma, dbeta, dy, gamma = dgamma[:len(x)], dbeta[:len(x)], dy[:len(x)], gamma[:len(x)]
	for i, v := range x {
		h, d := (v-mean)*rstd, dy[i]
		dgamma[i] += d * h
		dbeta[i] += d
		g := float64(d * gamma[i])
		sum += g
		sumh += g * float64(h)
	}
	return sum, sumh
}

func normGrad(dx, x, dy, gamma []float32, mean, rstd, offset, slope float32) {
	dx, dy, gamma = dx[:len(x)], dy[:len(x)], gamma[:len(x)]
	for i, v := range x {
		dx[i] = (dy[i]*gamma[i] - offset - (v-mean)*rstd*slope) * rstd
	}
}

func standardize(y, x []float32, mean, rest, factor, shift float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = (v-mean-rest)*factor + shift
	}
}

func standardizeGrad(dx, x, dy []float32, mean, offset, slope, factor float32) {
	dx, dy = dx[:len(x)], dy[:len(x)]
	for i, v := range x {
		dx[i] = (dy[i] - offset - (v-mean)*slope) * factor
	}
}

func rotate(y, x, cos, sin []float32) {
	n := len(cos)
	y, x, sin = y[:2*n], x[:2*n], sin[:n]
	for i, c := range cos {
		a, b := x[i], x[n+i]
		y[i], y[n+i] = a*c-b*sin[i], a*sin[i]+b*c
	}
}

// row is n elements of row r of a matrix.
func row(x *float32, stride, r, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(x), r*stride*4)), n)
}

func attend(s *float32, ld, rows, n, width int, scale float32, most, sums *float32) {
	for r := range rows {
		x := row(s, ld, r, width)
		count := min(n+r, width)
		clear(x[count:])
		x = x[:count]
		m, sum := largest(x)*scale, 0.0
		for i, v := range x {
			e := Exp64(float64(v)*float64(scale) - float64(m))
			sum += e
			x[i] = float32(e)
		}
		inverse := float32(1 / sum)
		for i := range x {
			x[i] *= inverse
		}
		row(most, 1, r, 1)[0], row(sums, 1, r, 1)[0] = m, float32(sum)
	}
}

func attendGrad(p, d *float32, ld, rows, n, width int, scale float32, stats *float32) {
	for r := range rows {
		ps, ds, s := row(p, ld, r, width), row(d, ld, r, width), row(stats, 2, r, 2)
		count := min(n+r, width)
		clear(ps[count:])
		clear(ds[count:])
		for i, v := range ps[:count] {
			ps[i] = float32(Exp64(float64(v)*float64(scale) - float64(s[0])))
			ds[i] = ps[i] * (ds[i] - s[1]) * scale
		}
	}
}

func rowDots(out *float32, step int, x *float32, xstride int, y *float32, ystride, rows, n int) {
	for r := range rows {
		row(out, step, r, 1)[0] = float32(dot(row(x, xstride, r, n), row(y, ystride, r, n)))
	}
}

func zeros(x *float32, stride, rows, n int) float32 {
	sum := float32(0)
	for r := range rows {
		for _, v := range row(x, stride, r, n) {
			sum += v * 0
		}
	}
	return sum
}
