package vec

import "math"

// each makes a loop of a function of one element.
func each(f func(x float32) float32) func(y, x []float32) {
	return func(y, x []float32) {
		y = y[:len(x)]
		for i, v := range x {
			y[i] = f(v)
		}
	}
}

// pair makes a loop of a function of two elements.
func pair(f func(a, b float32) float32) func(y, a, b []float32) {
	return func(y, a, b []float32) {
		y, b = y[:len(a)], b[:len(a)]
		for i, v := range a {
			y[i] = f(v, b[i])
		}
	}
}

func absf(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func absGradf(x, dy float32) float32 {
	switch {
	case x > 0:
		return dy
	case x < 0:
		return -dy
	}
	return 0
}

// relu keeps NaN: only numbers known to be negative become 0. The sign bit clears the
// whole word, so that random signs cost no mispredicted branches.
func relu(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		if b <= 0xff800000 { // not a NaN with a sign
			b &^= uint32(int32(b) >> 31)
		}
		y[i] = math.Float32frombits(b)
	}
}

// reluGrad lets dy pass where the output y is positive (or NaN).
func reluGrad(dx, y, dy []float32) {
	dx, dy = dx[:len(y)], dy[:len(y)]
	for i, v := range y {
		b := math.Float32bits(dy[i])
		if v <= 0 {
			b = 0
		}
		dx[i] = math.Float32frombits(b)
	}
}

func widen(y []float32, x []uint16) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = math.Float32frombits(uint32(v) << 16)
	}
}

func add(y, a, b []float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = v + b[i]
	}
}

func sub(y, a, b []float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = v - b[i]
	}
}

func mul(y, a, b []float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = v * b[i]
	}
}

func div(y, a, b []float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = v / b[i]
	}
}

func mulAddTo(y, a, b []float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] += v * b[i]
	}
}

func lerp(y, a, b []float32, t float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		y[i] = v + float32(t*(b[i]-v))
	}
}

func addScalar(y, x []float32, s float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = v + s
	}
}

func mulScalar(y, x []float32, s float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = v * s
	}
}

func divScalar(y, x []float32, s float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = v / s
	}
}

func scalarSub(y, x []float32, s float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = s - v
	}
}

func scalarDiv(y, x []float32, s float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = s / v
	}
}

func addScaled(y, x []float32, s float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += s * v
	}
}

func affine(y, x []float32, scale, shift float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = float32(v*scale) + shift
	}
}

// sum has four interleaved sums, so that additions overlap, as the other sums have.
func sum(x []float32) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a += float64(x[0])
		b += float64(x[1])
		c += float64(x[2])
		d += float64(x[3])
	}
	for _, v := range x {
		a += float64(v)
	}
	return (a + b) + (c + d)
}

func dot(x, y []float32) float64 {
	var a, b, c, d float64
	y = y[:len(x)]
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += float64(x[i]) * float64(y[i])
		b += float64(x[i+1]) * float64(y[i+1])
		c += float64(x[i+2]) * float64(y[i+2])
		d += float64(x[i+3]) * float64(y[i+3])
	}
	for ; i < len(x); i++ {
		a += float64(x[i]) * float64(y[i])
	}
	return (a + b) + (c + d)
}

func squaresFrom(x []float32, from float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		p, q, r, s := float64(x[0])-from, float64(x[1])-from, float64(x[2])-from, float64(x[3])-from
		a += p * p
		b += q * q
		c += r * r
		d += s * s
	}
	for _, v := range x {
		p := float64(v) - from
		a += p * p
	}
	return (a + b) + (c + d)
}

func expSum(y, x []float32, shift float32) float64 {
	sum := 0.0
	y = y[:len(x)]
	for i, v := range x {
		e := Exp64(float64(v) - float64(shift))
		y[i] = float32(e)
		sum += e
	}
	return sum
}

func largest(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

func adam(w1, m1, v1, w, m, v, g []float32, k *AdamFactors) {
	n := len(w)
	w1, m1, v1, m, v, g = w1[:n], m1[:n], v1[:n], m[:n], v[:n], g[:n]
	for i, x := range w {
		d := g[i]*k.Grad + k.Decay*x
		mi := k.Beta1*m[i] + k.Rest1*d
		vi := k.Beta2*v[i] + k.Rest2*(d*d)
		m1[i], v1[i] = mi, vi
		w1[i] = x*k.Shrink - k.Rate*mi/(sqrtf(vi)*k.Root+k.Epsilon)
	}
}

func lion(w1, m1, w, m, g []float32, k *LionFactors) {
	n := len(w)
	w1, m1, m, g = w1[:n], m1[:n], m[:n], g[:n]
	for i, x := range w {
		d, mi := g[i]*k.Grad, m[i]
		c := k.Beta1*mi + k.Rest1*d
		switch {
		case c > 0:
			c = 1
		case c < 0:
			c = -1
		} // 0 and NaN stay
		m1[i] = k.Beta2*mi + k.Rest2*d
		w1[i] = x*k.Shrink - k.Rate*c
	}
}

func sgd(w1, w, g []float32, k *SGDFactors) {
	w1, g = w1[:len(w)], g[:len(w)]
	for i, x := range w {
		w1[i] = x - k.Rate*(g[i]*k.Grad+k.Decay*x)
	}
}

func momentum(w1, v1, w, v, g []float32, k *SGDFactors) {
	n := len(w)
	w1, v1, v, g = w1[:n], v1[:n], v[:n], g[:n]
	for i, x := range w {
		u := k.Momentum*v[i] + (g[i]*k.Grad + k.Decay*x)
		v1[i] = u
		w1[i] = x - k.Rate*u
	}
}

func nesterov(w1, v1, w, v, g []float32, k *SGDFactors) {
	n := len(w)
	w1, v1, v, g = w1[:n], v1[:n], v[:n], g[:n]
	for i, x := range w {
		d := g[i]*k.Grad + k.Decay*x
		u := k.Momentum*v[i] + d
		v1[i] = u
		w1[i] = x - k.Rate*(d+k.Momentum*u)
	}
}

// dropFactors takes the words one block at a time.
func dropFactors(dst []float32, block uint64, d *Drop) {
	for ; len(dst) >= 4; dst, block = dst[4:], block+1 {
		words := d.Key.At(block, d.Step)
		for j, w := range words {
			dst[j] = d.Of(w)
		}
	}
}
