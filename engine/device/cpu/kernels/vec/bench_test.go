package vec

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkFuncs runs what training needs most, in the first cache and beyond
// the caches. A float of a result is an element.
func BenchmarkFuncs(b *testing.B) {
	for set, f := range tables() {
		for _, size := range []struct {
			name string
			n    int
		}{{"4Ki", 4 << 10}, {"16Mi", 16 << 20}} {
			x, y, z := ordinary(rand.New(rand.NewPCG(1, 1)), size.n), make([]float32, size.n), make([]float32, size.n)
			for name, run := range map[string]func(){
				"add":            func() { f.Add(z, x, y) },
				"exp":            func() { f.Exp(z, x) },
				"gelu_tanh":      func() { f.GeluTanh(z, x) },
				"gelu_tanh_grad": func() { f.GeluTanhGrad(z, x, y) },
				"gelu_erf":       func() { f.GeluErf(z, x) },
				"sum":            func() { f.Sum(x) },
				"dot":            func() { f.Dot(x, y) },
				"exp_sum":        func() { f.ExpSum(z, x, 0) },
				"lion":           func() { f.Lion(z, z, z, z, x, &LionFactors{Shrink: 1, Rate: 0.5}) },
				"adam":           func() { f.Adam(z, z, z, z, z, z, x, &AdamFactors{Root: 1, Epsilon: 1}) },
			} {
				b.Run(set+"/"+name+"/"+size.name, func(b *testing.B) {
					b.SetBytes(int64(size.n))
					for b.Loop() {
						run()
					}
				})
			}
		}
	}
}
