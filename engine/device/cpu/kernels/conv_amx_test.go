package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// convolution is one application of a convolution or a gradient, between x, w and
// dy.
type convolution struct {
	n, c, o, h, w, kh, kw, stride, pad, groups int
}

// convOps are a convolution and its gradients.
var convOps = []string{"y", "dx", "dw"}

func (s convolution) out() (oh, ow int) {
	return (s.h+2*s.pad-s.kh)/s.stride + 1, (s.w+2*s.pad-s.kw)/s.stride + 1
}

// shapes are those of x, w and dy.
func (s convolution) shapes() (x, w, dy []int) {
	oh, ow := s.out()
	return []int{s.n, s.c, s.h, s.w}, []int{s.o, s.c / s.groups, s.kh, s.kw}, []int{s.n, s.o, oh, ow}
}

// op is an op of the convolution with its inputs.
func (s convolution) op(which string, x, w, dy ref.Array) (graph.Op, []ref.Array) {
	switch which {
	case "dx":
		return ops.Conv2DGradX{Stride: s.stride, Pad: s.pad, Groups: s.groups, H: s.h, W: s.w}, []ref.Array{w, dy}
	case "dw":
		return ops.Conv2DGradW{Stride: s.stride, Pad: s.pad, Groups: s.groups, KH: s.kh, KW: s.kw}, []ref.Array{x, dy}
	}
	return ops.Conv2D{Stride: s.stride, Pad: s.pad, Groups: s.groups}, []ref.Array{x, w}
}

// drawConvolution draws one of enough channels for tiles.
func drawConvolution(s source) convolution {
	g := s.size("groups", 2)
	k := convolution{
		n: s.size("n", 4), c: g * s.size("c", 70), o: g * s.size("o", 70),
		kh: s.size("kh", 3), kw: s.size("kw", 3), stride: s.size("stride", 2), pad: rapid.IntRange(0, 2).Draw(s.t, "pad"), groups: g,
	}
	k.h = max(1, k.kh-2*k.pad) + rapid.IntRange(0, 20).Draw(s.t, "h")
	k.w = max(1, k.kw-2*k.pad) + rapid.IntRange(0, 24).Draw(s.t, "w")
	return k
}

// TestConvolutionsOfManyChannels compares convolutions with the reference, and
// wants each element in one piece of what follows them, and final.
func TestConvolutionsOfManyChannels(t *testing.T) {
	defer Use(Using())
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		k := drawConvolution(s)
		x, w, dy := k.shapes()
		op, in := k.op(rapid.SampledFrom(convOps).Draw(t, "op"), s.normal(x...), s.normal(w...), s.normal(dy...))
		a := sample{op, in, 2e-4}
		want := reference(t, a) // which takes longer than all levels
		for l := Generic; l <= Best(); l++ {
			Use(l)
			checkAgainst(t, a, want, s.rng.Uint64())
			checkFollower(t, a)
		}
	})
}

// checkFollower lets an epilogue follow, if the kernel can.
func checkFollower(t failer, a sample) {
	t.Helper()
	l := runSample(t, a, nil, serial{})
	f, ok := l.kernel.(Follower)
	if !ok {
		return
	}
	y, dims := shape.View[float32](l.out[0].mem), l.node.Out[0].Meta.Shape
	n := dims[2] * dims[3]
	e := &addBias{n: n, out: y, bias: make([]float32, n), before: make([]float32, len(y)), seen: make([]int32, len(y))}
	want := slices.Clone(y)
	f.Then(e)
	if err := l.run(shuffled{2, rand.New(rand.NewPCG(1, 2))}); err != nil {
		t.Fatalf("%v", err)
	}
	for i, v := range want {
		if e.seen[i] != 1 || e.before[i] != v {
			t.Fatalf("element %d of %v: seen %d times, was %v, want %v", i, l.node, e.seen[i], e.before[i], v)
		}
	}
}

// oddFloats have no parts. The last one is finite.
var oddFloats = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32}

// TestConvolutionsOfNonFinite puts numbers without parts into the inputs: what
// they reach has IEEE's results, and the rest has the bits that it has without them.
func TestConvolutionsOfNonFinite(t *testing.T) {
	defer Use(Using())
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		k := drawConvolution(s)
		k.pad, k.h, k.w = 0, k.h+k.kh, k.w+k.kw // the reference does not multiply padding
		x, w, dy := k.shapes()
		which := rapid.SampledFrom(convOps).Draw(t, "op")
		op, in := k.op(which, s.floats(-1e-3, 1e-3, x...), s.floats(-1e-3, 1e-3, w...), s.floats(-1e-3, 1e-3, dy...))
		clean := []ref.Array{ref.New(in[0].Meta), ref.New(in[1].Meta)}
		for i := range in {
			copy(clean[i].F, in[i].F)
		}
		for range s.size("odd", 3) {
			f := in[rapid.IntRange(0, 1).Draw(t, "where")].F
			if which == "dx" {
				f = in[1].F // dy is padded
			}
			f[s.rng.IntN(len(f))] = oddFloats[s.rng.IntN(len(oddFloats))]
		}
		a := sample{op, in, 1e-4}
		want, reached := reference(t, a), reference(t, sample{op, onlyOdd(in), 0})[0].F
		for l := Generic; l <= Best(); l++ {
			Use(l)
			checkAgainst(t, a, want, 3)
			even := runSample(t, sample{op, clean, 0}, nil, serial{})
			got := shape.View[float32](runSample(t, a, nil, serial{}).out[0].mem)
			for i, v := range shape.View[float32](even.out[0].mem) {
				if reached[i] < 1e-30 && math.Float32bits(got[i]) != math.Float32bits(v) {
					t.Fatalf("%v %v: element %d is %v, and %v without odd numbers elsewhere", l, even.node, i, got[i], v)
				}
			}
		}
	})
}

// TestProductsBesideTheirSums has numbers without parts in dx of a stride of two,
// whose product is kept in a workspace until it is added up: computing them again must
// not take that memory.
func TestProductsBesideTheirSums(t *testing.T) {
	defer Use(Using())
	s := source{rng: rand.New(rand.NewPCG(1, 2))}
	k := convolution{1, 45, 70, 21, 17, 2, 2, 2, 0, 1}
	x, w, dy := k.shapes()
	op, in := k.op("dx", s.floats(-1, 1, x...), s.floats(-1, 1, w...), s.floats(-1, 1, dy...))
	in[1].F[s.rng.IntN(len(in[1].F))] = math.MaxFloat32
	a := sample{op, in, 1e-4}
	want := reference(t, a)
	for l := Generic; l <= Best(); l++ {
		Use(l)
		checkAgainst(t, a, want, 4)
	}
}

// TestHighKernels has a window so high that a band of one row of output reads more
// than a workspace's panel of A has room for.
func TestHighKernels(t *testing.T) {
	defer Use(Using())
	s := source{rng: rand.New(rand.NewPCG(1, 3))}
	k := convolution{1, 16, 32, 64, 512, 64, 1, 1, 0, 1}
	x, w, dy := k.shapes()
	op, in := k.op("dw", s.floats(-1, 1, x...), s.floats(-1, 1, w...), s.floats(-1, 1, dy...))
	a := sample{op, in, 2e-4}
	want := reference(t, a)
	for l := Generic; l <= Best(); l++ {
		Use(l)
		checkAgainst(t, a, want, 5)
	}
}

// onlyOdd are inputs whose op is tiny but where a number without parts is
// multiplied.
func onlyOdd(in []ref.Array) []ref.Array {
	marks := make([]ref.Array, len(in))
	for i, a := range in {
		marks[i] = ref.New(a.Meta)
		for j, v := range a.F {
			marks[i].F[j] = 1e-20
			if isUnsplittable(float32(v)) {
				marks[i].F[j] = 1
			}
		}
	}
	return marks
}

// TestConvolutionsAreAsExactAsVectors compares how far both are from float64, in
// units of the sums of magnitudes.
func TestConvolutionsAreAsExactAsVectors(t *testing.T) {
	if Best() < AMX || testing.Short() {
		return // there is nothing to compare, or no time for the reference
	}
	defer Use(Using())
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range []convolution{
		{4, 32, 64, 14, 14, 3, 3, 1, 1, 1}, {2, 64, 32, 20, 20, 1, 1, 1, 0, 1}, {4, 256, 32, 7, 7, 3, 3, 1, 1, 1}, {1, 32, 32, 28, 28, 3, 3, 1, 1, 1},
	} {
		xs, ws, ys := k.shapes()
		var in, size [3]ref.Array
		for i, dims := range [][]int{xs, ws, ys} {
			in[i], size[i] = ref.New(shape.F32(dims...)), ref.New(shape.F32(dims...))
			for j := range in[i].F {
				in[i].F[j] = float64(float32(rng.NormFloat64() * math.Exp(2*rng.NormFloat64())))
				size[i].F[j] = math.Abs(in[i].F[j])
			}
		}
		for _, which := range convOps {
			op, args := k.op(which, in[0], in[1], in[2])
			_, sizes := k.op(which, size[0], size[1], size[2])
			want, unit := reference(t, sample{op, args, 0})[0].F, reference(t, sample{op, sizes, 0})[0].F
			mean := map[ISA]float64{}
			for _, l := range []ISA{AVX512, AMX} {
				Use(l)
				for i, v := range shape.View[float32](runSample(t, sample{op, args, 0}, nil, serial{}).out[0].mem) {
					mean[l] += math.Abs(float64(v)-want[i]) / unit[i] / float64(len(want))
				}
			}
			t.Logf("%+v %s: off by %.3g on average; by vectors %.3g", k, which, mean[AMX], mean[AVX512])
			if mean[AMX] > mean[AVX512] {
				t.Error("vectors are more exact")
			}
		}
	}
}
