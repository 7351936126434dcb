package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// depthwise draws a convolution of 3x3 in which each channel stands alone. Many images are small, narrow or a
// little wider than vectors.
func depthwise(r *rand.Rand, set isa.ISA) *convShape {
	side := func() int { return 1 + r.IntN([]int{4, 10, 20, 40, 70}[r.IntN(5)]) }
	s := &convShape{
		on: work.TargetOf(set), n: 1 + r.IntN(3), kh: 3, kw: 3, h: side(), w: side(), stride: 1 + r.IntN(2), pad: r.IntN(4), apart: 1,
	}
	s.c = 1 + r.IntN(20)
	if s.h <= 11 && s.w <= 11 && r.IntN(2) == 0 { // so many small images that a chunk has several
		s.n, s.c = 1+r.IntN(12), 1+r.IntN(120)
	}
	s.o, s.groups, s.of = s.c, s.c, s
	s.h, s.w = max(s.h, 3-2*s.pad), max(s.w, 3-2*s.pad)
	s.oh, s.ow = (s.h+2*s.pad-3)/s.stride+1, (s.w+2*s.pad-3)/s.stride+1
	return s
}

// oddFloats are what arithmetic treats in its own way.
var oddFloats = []float32{
	float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 0,
	math.MaxFloat32, math.SmallestNonzeroFloat32, 1e-38,
}

// drawFloats are n numbers. Some are odd if odd is not 0: one of so many.
func drawFloats(r *rand.Rand, n, odd int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
		if odd > 0 && r.IntN(odd) == 0 {
			x[i] = oddFloats[r.IntN(len(oddFloats))]
		}
	}
	return x
}

// runWay is what a way of a convolution makes of two factors. All memory that it should write is NaN before.
func runWay(r *rand.Rand, way convolver, a, b []float32, n int) []float32 {
	out, scratch := make([]float32, n+16), make([]float32, way.scratch())
	for i := range out {
		out[i] = float32(math.NaN())
	}
	for i := range scratch {
		scratch[i] = float32(math.NaN())
	}
	way.run(kernelstest.Shuffled{N: 2, Rng: r}, a, b, out[:n:n], scratch, nil)
	for _, v := range out[n:] {
		if v == v {
			panic("written behind the end")
		}
	}
	return out[:n]
}

func checkBits(t *testing.T, name string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v (%#x), expected %v (%#x)", name, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// TestImagesInPlaceHaveTheBitsOfCopies compares the ways of 3x3 windows that read images in place with those for
// all windows, which copy them with their padding.
func TestImagesInPlaceHaveTheBitsOfCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for set := isa.AVX2; set <= isa.Best(); set++ {
		pairs := 0 // gradients of which a chunk has two narrow images
		for round := range 600 {
			s, odd := depthwise(r, set), []int{0, 300, 7}[round%3]
			x, w, dy := drawFloats(r, s.lenX(), odd), drawFloats(r, s.lenW(), odd), drawFloats(r, s.lenY(), odd)
			name := fmt.Sprintf("%v %dx%dx%dx%d stride %d pad %d", set, s.n, s.c, s.h, s.w, s.stride, s.pad)
			checkBits(t, "y of "+name, runWay(r, newConvDepthwise3(s, s.forward()), x, w, s.lenY()), runWay(r, newConvDepthwise(s, s.forward()), x, w, s.lenY()))
			if s.stride == 1 {
				checkBits(t, "dx of "+name, runWay(r, newConvDepthwise3(s, s.backward()), dy, w, s.lenX()), runWay(r, newConvDepthwise(s, s.backward()), dy, w, s.lenX()))
			}
			if s.stride == 2 && s.pad%2 == 1 {
				checkBits(t, "dx of "+name, runWay(r, newConvDepthwise3Stride(s), dy, w, s.lenX()), runWay(r, newConvDepthwiseStride(s), dy, w, s.lenX()))
			}
			dw := newConvDepthwiseWGrad(s)
			got := runWay(r, dw, x, dy, s.lenW())
			if dw.columns == nil {
				t.Fatalf("%s is copied", name)
			}
			narrow := set >= isa.AVX512 && s.ow <= 8 && s.w <= 16
			if narrow != (dw.columns.layout != nil) {
				t.Fatalf("%s in pairs: %v", name, !narrow)
			}
			if narrow && dw.perChunk > 1 && dw.bands == 1 {
				pairs++
			}
			dw.columns = nil
			checkBits(t, "dw of "+name, got, runWay(r, dw, x, dy, s.lenW()))
		}
		if set >= isa.AVX512 && pairs == 0 {
			t.Errorf("%v: no chunk has a pair of images", set)
		}
	}
}

// TestLanesOfGradientsOfImages computes the sums of each lane one after another, for vectors of any size: those
// of a wider vector are made by narrower ones, too, where images are narrow.
func TestLanesOfGradientsOfImages(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for set := isa.AVX2; set <= isa.Best(); set++ {
		for range 60 {
			s := depthwise(r, set)
			x, dy := drawFloats(r, s.lenX(), 0), drawFloats(r, s.lenY(), 0)
			d := newConvDepthwiseWGrad(s)
			want := make([]float32, s.lenW())
			for i := range want {
				want[i] = d.plainly(x, dy, i/9, i/3%3, i%3)
			}
			name := fmt.Sprintf("dw of %v %dx%dx%dx%d stride %d pad %d", set, s.n, s.c, s.h, s.w, s.stride, s.pad)
			checkBits(t, name, runWay(r, d, x, dy, s.lenW()), want)
		}
	}
}

// plainly is dw of a channel's weight, by the order of sums that is documented.
func (d *convDepthwiseWGrad) plainly(x, dy []float32, c, kh, kw int) (sum float32) {
	m, lanes := &d.im, isaSizes[d.isa].lanes
	for part := range d.partials {
		all := make([]float32, lanes)
		for s := part * d.samplesPerPartial; s < min((part+1)*d.samplesPerPartial, d.samples); s++ {
			plane := s*d.groups + c
			for band := range d.bands {
				r0, r1 := d.rows(band)
				for l := range lanes {
					var chain float32
					for j := l; j < m.ow; j += lanes {
						for i := r0; i < r1; i++ {
							h, w, v := i*m.mul+kh+m.off, j*m.mul+kw+m.off, float32(0)
							if h >= 0 && h < m.h && w >= 0 && w < m.w {
								v = x[(plane*m.h+h)*m.w+w]
							}
							chain = fma32(v, dy[(plane*m.oh+i)*m.ow+j], chain)
						}
					}
					all[l] += chain
				}
			}
		}
		for _, v := range all {
			sum += v
		}
	}
	return sum
}

// fma32 is a*b + c, rounded once. float64 has the product exactly. What it drops from the sum makes the last bit
// of the rest odd, so that the second rounding knows of it.
func fma32(a, b, c float32) float32 {
	product, third := float64(a)*float64(b), float64(c)
	sum := product + third
	back := sum - product
	dropped := (product - (sum - back)) + (third - back)
	if bits := math.Float64bits(sum); dropped != 0 && bits&1 == 0 {
		if (dropped > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}
