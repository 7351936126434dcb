package vec

import "math"

// Transcendental functions for float32, computed in float64 and rounded once,
// which keeps them within 1 ulp of the true value. A polynomial of the degree
// float32 needs is three to five times as fast as package math.

// Exp64 is e^x to a relative error of about 2e-10, for any x: it saturates
// where float32 cannot tell the result from 0 or infinity, and keeps NaN. x is
// split into k*ln 2 + r with |r| <= ln 2 / 2; e^r is its Taylor series to the
// eighth power, and 2^k is put together from its bits.
func Exp64(x float64) float64 {
	const round = 3 << 51 // adding it leaves the nearest integer in the low bits
	if x > 700 {
		x = 700
	}
	if x < -700 {
		x = -700
	}
	t := x*math.Log2E + round
	k := t - round
	r := x - k*math.Ln2
	r2 := r * r
	r4 := r2 * r2
	lo := (1 + r) + r2*(1.0/2+r*(1.0/6))
	hi := (1.0/24 + r*(1.0/120)) + r2*(1.0/720+r*(1.0/5040)) + r4*(1.0/40320)
	return (lo + r4*hi) * math.Float64frombits((math.Float64bits(t)+1023)<<52)
}

func expf(x float32) float32 { return float32(Exp64(float64(x))) }

func logf(x float32) float32 { return float32(math.Log(float64(x))) }

func sqrtf(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func rsqrtf(x float32) float32 { return float32(1 / math.Sqrt(float64(x))) }

// sigmoid64 is 1/(1+e^-x).
func sigmoid64(x float64) float64 { return 1 / (1 + Exp64(-x)) }

func sigmoidf(x float32) float32 { return float32(sigmoid64(float64(x))) }

// tanhf is 1 - 2/(e^2x + 1), and its Taylor series to the ninth power below
// 1/4, where the difference would cancel.
func tanhf(x float32) float32 {
	v := float64(x)
	if v > -0.25 && v < 0.25 {
		s := v * v
		return float32(v + v*s*(-1.0/3+s*(2.0/15+s*(-17.0/315+s*(62.0/2835-s*(1382.0/155925))))))
	}
	return float32(1 - 2/(Exp64(2*v)+1))
}

func siluf(x float32) float32 {
	v := float64(x)
	return float32(v * sigmoid64(v))
}

func siluGradf(x, dy float32) float32 {
	v := float64(x)
	s := sigmoid64(v)
	return float32(float64(dy) * s * (1 + v*(1-s)))
}

// The tanh form of GELU (Hendrycks and Gimpel, "Gaussian Error Linear Units",
// 2016) is x/2*(1+tanh u) with u = geluA*(x + geluB*x^3), which is x*sigmoid(2u).
const (
	geluA = 0.7978845608028654 // sqrt(2/pi)
	geluB = 0.044715
)

func geluTanhf(x float32) float32 {
	v := float64(x)
	return float32(v * sigmoid64(2*geluA*v*(1+geluB*v*v)))
}

func geluTanhGradf(x, dy float32) float32 {
	v := float64(x)
	s := sigmoid64(2 * geluA * v * (1 + geluB*v*v))
	du := 2 * geluA * (1 + 3*geluB*v*v)
	return float32(float64(dy) * (s + v*s*(1-s)*du))
}

// geluErff is x*Phi(x), Phi the normal distribution function. It goes through
// erfc, which keeps its relative accuracy in the negative tail.
func geluErff(x float32) float32 {
	v := float64(x)
	return float32(v * 0.5 * math.Erfc(-v*math.Sqrt2/2))
}

func geluErfGradf(x, dy float32) float32 {
	const invSqrt2Pi = 0.3989422804014327
	v := float64(x)
	phi := 0.5 * math.Erfc(-v*math.Sqrt2/2)
	return float32(float64(dy) * (phi + v*invSqrt2Pi*Exp64(-0.5*v*v)))
}
