package rng

import "math"

// Uniform fills dst with numbers uniform over [lo, hi). Element i depends on
// the key and i alone. hi itself can only come out by rounding to float32.
func Uniform(dst []float32, k Key, lo, hi float32) { UniformAt(dst, k, 0, lo, hi) }

// UniformAt fills dst with the elements that Uniform makes from element at on, a multiple
// of 4.
func UniformAt(dst []float32, k Key, at int, lo, hi float32) {
	width := float64(hi) - float64(lo)
	for i := 0; i < len(dst); i += 4 {
		w := k.At(uint64((at+i)/4), 0)
		for j := range min(4, len(dst)-i) {
			dst[i+j] = float32(float64(lo) + width*(float64(w[j])*(1.0/(1<<32))))
		}
	}
}

// Normal fills dst with numbers from the normal distribution of mean 0 and
// standard deviation std, by the Box-Muller transform: the words 0 and 1 of
// block i give elements 4i and 4i+1, the words 2 and 3 the next two. Element i
// depends on the key and i alone.
func Normal(dst []float32, k Key, std float32) { NormalAt(dst, k, 0, std) }

// NormalAt fills dst with the elements that Normal makes from element at on, a multiple
// of 4.
func NormalAt(dst []float32, k Key, at int, std float32) {
	for i := 0; i < len(dst); i += 4 {
		w := k.At(uint64((at+i)/4), 0)
		var z [4]float64
		z[0], z[1] = boxMuller(w[0], w[1])
		z[2], z[3] = boxMuller(w[2], w[3])
		for j := range min(4, len(dst)-i) {
			dst[i+j] = float32(z[j] * float64(std))
		}
	}
}

// boxMuller makes two independent standard normals of two uniform words. The
// half keeps the logarithm's argument inside (0, 1).
func boxMuller(a, b uint32) (float64, float64) {
	u := (float64(a) + 0.5) * (1.0 / (1 << 32))
	r := math.Sqrt(-2 * math.Log(u))
	sin, cos := math.Sincos(2 * math.Pi * float64(b) * (1.0 / (1 << 32)))
	return r * cos, r * sin
}
