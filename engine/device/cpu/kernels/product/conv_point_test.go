package product

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// drawPoint draws a convolution with windows of one pixel.
func drawPoint(t *rapid.T) *convShape {
	draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	s := &convShape{
		n: draw("n", 1, 20), groups: draw("groups", 1, 2), kh: 1, kw: 1, apart: 1,
		h: draw("h", 1, 32), w: draw("w", 1, 32), stride: draw("stride", 1, 3),
	}
	switch draw("channels", 0, 3) {
	case 0: // so many that an image has several bands
		s.n, s.h, s.w, s.c = min(s.n, 5), min(s.h, 9), min(s.w, 9), 1024
	case 1: // and that all pixels of a sample do not fit into a workspace
		s.n, s.h, s.w, s.c = draw("few", 1, 2), 32, 31, 352
	}
	s.c, s.o = s.groups*(s.c+draw("c", minPointChannels, 70)), s.groups*draw("o", minPointChannels, 70)
	s.oh, s.ow = (s.h-1)/s.stride+1, (s.w-1)/s.stride+1
	s.of = s
	return s
}

// results is what ways compute from the same factors, with some threads. Products of small
// ones are zeros with a sign.
func results(rng *rand.Rand, small bool, threads int, lenA, lenB, lenOut int, ways ...convolver) (all [][]float32) {
	noise := func(n int) []float32 {
		f := make([]float32, n)
		for i := range f {
			if f[i] = float32(rng.NormFloat64()); small {
				f[i] *= 1e-30
			}
		}
		return f
	}
	a, b := noise(lenA), noise(lenB)
	for _, way := range ways {
		out := noise(lenOut)
		way.run(kernelstest.Shuffled{N: threads, Rng: rng}, a, b, out, noise(way.scratch()), nil)
		all = append(all, out)
	}
	return all
}

// sameBits fails where two ways differ.
func sameBits(t *rapid.T, s *convShape, got, want []float32) {
	t.Helper()
	for i, v := range want {
		if math.Float32bits(got[i]) != math.Float32bits(v) {
			t.Fatalf("%v, %+v: element %d is %v, want %v", s.on.ISA, *s, i, got[i], v)
		}
	}
}

// TestPointWGradHasTheBitsOfBands compares it with the way that writes each partial sum to
// memory.
func TestPointWGradHasTheBitsOfBands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, threads, small := drawPoint(t), rapid.IntRange(1, 4).Draw(t, "threads"), rapid.Bool().Draw(t, "small")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for set := isa.AVX2; set <= isa.Best(); set++ {
			s.on = work.TargetOf(set)
			direct := newConvDirectWGrad(s)
			if direct == nil {
				t.Fatalf("%+v has no bands", *s)
			}
			point := newConvPointWGrad(s, direct)
			both := results(rng, small, threads, s.lenX(), s.lenY(), s.lenW(), point, direct)
			sameBits(t, s, both[0], both[1])
		}
	})
}

// TestPointHasTheBitsOfProducts compares y and dx with the ways for any windows, and lets an
// epilogue follow them.
func TestPointHasTheBitsOfProducts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, threads, small := drawPoint(t), rapid.IntRange(1, 4).Draw(t, "threads"), rapid.Bool().Draw(t, "small")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		k := convolution{n: s.n, c: s.c, o: s.o, h: s.h, w: s.w, kh: 1, kw: 1, stride: s.stride, groups: s.groups}
		x, w, dy := k.shapes()
		for set := isa.Generic; set <= isa.Best(); set++ {
			s.on = work.TargetOf(set)
			y, dx := newConvPoint(s, false), newConvPoint(s, true)
			if (y == nil) != (s.py() < isaSizes[set].nr) || (dx == nil) != (y == nil) {
				t.Fatalf("%v, %+v: %v, %v", set, *s, y, dx)
			}
			if y == nil {
				continue
			}
			both := results(rng, small, threads, s.lenX(), s.lenW(), s.lenY(), y, newConvProduct(s.forward()))
			sameBits(t, s, both[0], both[1])
			var other convolver = newConvExchange(s)
			if s.stride > 1 {
				in := newConvCol2im(s)
				if other = in; in.format != formatFloat {
					continue
				}
			}
			both = results(rng, small, threads, s.lenY(), s.lenW(), s.lenX(), dx, other)
			sameBits(t, s, both[0], both[1])
			for _, which := range []string{"y", "dx"} {
				op, in := k.op(which, kernelstest.Noise(x...), kernelstest.Noise(w...), kernelstest.Noise(dy...))
				checkFollower(t, rig.With(set), kernelstest.Of(op, 0, in...))
			}
		}
	})
}

// TestPointAllocatesNothing runs each kernel several times.
func TestPointAllocatesNothing(t *testing.T) {
	for stride := 1; stride <= 2; stride++ {
		k := convolution{n: 3, c: 40, o: 50, h: 14, w: 14, kh: 1, kw: 1, stride: stride, groups: 1}
		x, w, dy := k.shapes()
		for _, which := range convOps {
			op, in := k.op(which, kernelstest.Noise(x...), kernelstest.Noise(w...), kernelstest.Noise(dy...))
			l, err := rig.Prepare(op, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(3, func() { err = l.Run(kernelstest.Serial{}) }); n != 0 || err != nil {
				t.Errorf("%s of stride %d allocates %v times: %v", which, stride, n, err)
			}
		}
	}
}
