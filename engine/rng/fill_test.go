package rng

import (
	"math"
	"testing"
)

func TestFillsAreElementwise(t *testing.T) {
	fills := map[string]func([]float32){
		"uniform": func(d []float32) { Uniform(d, Key{1, 2}, -0.5, 0.5) },
		"normal":  func(d []float32) { Normal(d, Key{1, 2}, 0.02) },
	}
	for name, fill := range fills {
		long := make([]float32, 103)
		fill(long)
		for n := range 20 {
			short := make([]float32, n)
			fill(short)
			for i := range short {
				if short[i] != long[i] {
					t.Fatalf("%s: element %d depends on the length", name, i)
				}
			}
		}
	}
}

func TestMoments(t *testing.T) {
	const n = 200000
	x := make([]float32, n)
	check := func(name string, mean, std, max float64) {
		var s, ss, top float64
		for _, v := range x {
			s += float64(v)
			ss += float64(v) * float64(v)
			top = math.Max(top, math.Abs(float64(v)))
		}
		m := s / n
		if sd := math.Sqrt(ss/n - m*m); math.Abs(m-mean) > 0.01*std || math.Abs(sd-std) > 0.01*std || top > max {
			t.Errorf("%s: mean %.4f, deviation %.4f, largest %.2f; want %.4f, %.4f, at most %.2f", name, m, sd, top, mean, std, max)
		}
	}
	Uniform(x, NewKey(1, 1), 1, 3)
	check("uniform", 2, 2/math.Sqrt(12), 3)
	Normal(x, NewKey(1, 2), 2)
	check("normal", 0, 2, 14)
}
