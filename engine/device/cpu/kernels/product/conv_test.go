package product

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// convolution is one application of a convolution or a gradient, between x, w and
// dy.
type convolution struct {
	n, c, o, h, w, kh, kw, stride, pad, groups int
	bf16                                       bool
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
	of := ops.Conv2D{Stride: s.stride, Pad: s.pad, Groups: s.groups, BF16: s.bf16}
	switch which {
	case "dx":
		return ops.Conv2DGradX{Of: of, H: s.h, W: s.w}, []ref.Array{w, dy}
	case "dw":
		return ops.Conv2DGradW{Of: of, KH: s.kh, KW: s.kw}, []ref.Array{x, dy}
	}
	return of, []ref.Array{x, w}
}

// drawConvolution draws one of enough channels for tiles.
func drawConvolution(s kernelstest.Source) convolution {
	g := s.Size("groups", 2)
	k := convolution{
		n: s.Size("n", 4), c: g * s.Size("c", 70), o: g * s.Size("o", 70),
		kh: s.Size("kh", 3), kw: s.Size("kw", 3), stride: s.Size("stride", 2), pad: rapid.IntRange(0, 2).Draw(s.T, "pad"), groups: g, bf16: s.Bool("bf16"),
	}
	k.h = max(1, k.kh-2*k.pad) + rapid.IntRange(0, 20).Draw(s.T, "h")
	k.w = max(1, k.kw-2*k.pad) + rapid.IntRange(0, 24).Draw(s.T, "w")
	return k
}

// TestConvolutionsOfManyChannels compares convolutions with the reference, and
// wants each element in one piece of what follows them, and final.
func TestConvolutionsOfManyChannels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		k := drawConvolution(s)
		x, w, dy := k.shapes()
		op, in := k.op(rapid.SampledFrom(convOps).Draw(t, "op"), s.Normal(x...), s.Normal(w...), s.Normal(dy...))
		a := kernelstest.Of(op, 2e-4, in...)
		want := a.Reference(t) // which takes longer than all instruction sets
		for l := isa.Generic; l <= isa.Best(); l++ {
			r := rig.With(l)
			r.CheckAgainst(t, a, want, s.Rng.Uint64())
			checkFollower(t, r, a)
		}
	})
}

// checkFollower lets an epilogue follow, if the kernel can.
func checkFollower(t kernelstest.Failer, r kernelstest.Rig, a kernelstest.Sample) {
	t.Helper()
	l := r.Run(t, a, nil, kernelstest.Serial{})
	f, ok := l.Kernel.(work.Follower)
	if !ok {
		return
	}
	y, dims := shape.View[float32](l.Out[0].Mem), l.Node.Out[0].Meta.Shape
	n := dims[2] * dims[3]
	e := &addBias{n: n, out: y, bias: make([]float32, n), before: make([]float32, len(y)), seen: make([]int32, len(y))}
	want := slices.Clone(y)
	f.Then(e)
	if err := l.Run(kernelstest.Shuffled{N: 2, Rng: rand.New(rand.NewPCG(1, 2))}); err != nil {
		t.Fatalf("%v", err)
	}
	for i, v := range want {
		if e.seen[i] != 1 || e.before[i] != v {
			t.Fatalf("element %d of %v: seen %d times, was %v, want %v", i, l.Node, e.seen[i], e.before[i], v)
		}
	}
}

// unsplittableFloats cannot be split. The last one is finite; its square is not, as float32.
var unsplittableFloats = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32}

// TestConvolutionsOfNonFinite puts unsplittable values into the inputs: outputs that they
// reach have IEEE's results, and the others have the bits that they have without them.
func TestConvolutionsOfNonFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		k := drawConvolution(s)
		k.pad, k.h, k.w = 0, k.h+k.kh, k.w+k.kw // the reference does not multiply padding
		x, w, dy := k.shapes()
		which := rapid.SampledFrom(convOps).Draw(t, "op")
		op, in := k.op(which, s.Floats(-1e-3, 1e-3, x...), s.Floats(-1e-3, 1e-3, w...), s.Floats(-1e-3, 1e-3, dy...))
		clean := []ref.Array{ref.New(in[0].Meta), ref.New(in[1].Meta)}
		for i := range in {
			copy(clean[i].F, in[i].F)
		}
		large := s.Rng.IntN(2) // the input with finite ones: the reference squares them without an overflow
		for range s.Size("unsplittable", 3) {
			where, values := rapid.IntRange(0, 1).Draw(t, "where"), unsplittableFloats
			if which == "dx" {
				where = 1 // dy is padded
			}
			if where != large {
				values = values[:3]
			}
			f := in[where].F
			f[s.Rng.IntN(len(f))] = values[s.Rng.IntN(len(values))]
		}
		a := kernelstest.Of(op, 1e-4, in...)
		want, reached := a.Reference(t), kernelstest.Of(op, 0, marks(in)...).Reference(t)[0].F
		for l := isa.Generic; l <= isa.Best(); l++ {
			r := rig.With(l)
			r.CheckAgainst(t, a, want, 3)
			even := r.Run(t, kernelstest.Of(op, 0, clean...), nil, kernelstest.Serial{})
			got := shape.View[float32](r.Run(t, a, nil, kernelstest.Serial{}).Out[0].Mem)
			for i, v := range shape.View[float32](even.Out[0].Mem) {
				if reached[i] < 1e-30 && math.Float32bits(got[i]) != math.Float32bits(v) {
					t.Fatalf("%v %v: element %d is %v, and %v without unsplittable values elsewhere", l, even.Node, i, got[i], v)
				}
			}
		}
	})
}

// TestProductsBesideTheirSums has unsplittable values in dx of a stride of two,
// whose product is kept in a workspace until it is added up: computing them again must
// not take that memory.
func TestProductsBesideTheirSums(t *testing.T) {
	s := kernelstest.Source{Rng: rand.New(rand.NewPCG(1, 2))}
	k := convolution{n: 1, c: 45, o: 70, h: 21, w: 17, kh: 2, kw: 2, stride: 2, groups: 1}
	x, w, dy := k.shapes()
	op, in := k.op("dx", s.Floats(-1, 1, x...), s.Floats(-1, 1, w...), s.Floats(-1, 1, dy...))
	in[1].F[s.Rng.IntN(len(in[1].F))] = math.MaxFloat32
	a := kernelstest.Of(op, 1e-4, in...)
	want := a.Reference(t)
	for l := isa.Generic; l <= isa.Best(); l++ {
		r := rig.With(l)
		r.CheckAgainst(t, a, want, 4)
	}
}

// TestHighKernels has a window so high that a band of one row of output reads more
// than a workspace's panel of A has room for.
func TestHighKernels(t *testing.T) {
	s := kernelstest.Source{Rng: rand.New(rand.NewPCG(1, 3))}
	k := convolution{n: 1, c: 16, o: 32, h: 64, w: 512, kh: 64, kw: 1, stride: 1, groups: 1}
	x, w, dy := k.shapes()
	op, in := k.op("dw", s.Floats(-1, 1, x...), s.Floats(-1, 1, w...), s.Floats(-1, 1, dy...))
	a := kernelstest.Of(op, 2e-4, in...)
	want := a.Reference(t)
	for l := isa.Generic; l <= isa.Best(); l++ {
		r := rig.With(l)
		r.CheckAgainst(t, a, want, 5)
	}
}

// marks are inputs whose op is tiny, except where an unsplittable value is multiplied.
func marks(in []ref.Array) []ref.Array {
	marked := make([]ref.Array, len(in))
	for i, a := range in {
		marked[i] = ref.New(a.Meta)
		for j, v := range a.F {
			marked[i].F[j] = 1e-20
			if isUnsplittable(float32(v)) {
				marked[i].F[j] = 1
			}
		}
	}
	return marked
}

// TestConvolutionsAreAsExactAsVectors compares how far both are from float64, in
// units of the sums of magnitudes.
func TestConvolutionsAreAsExactAsVectors(t *testing.T) {
	if isa.Best() < isa.AMX || testing.Short() {
		return // there is nothing to compare, or no time for the reference
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range []convolution{
		{n: 4, c: 32, o: 64, h: 14, w: 14, kh: 3, kw: 3, stride: 1, pad: 1, groups: 1},
		{n: 2, c: 64, o: 32, h: 20, w: 20, kh: 1, kw: 1, stride: 1, groups: 1},
		{n: 4, c: 256, o: 32, h: 7, w: 7, kh: 3, kw: 3, stride: 1, pad: 1, groups: 1},
		{n: 1, c: 32, o: 32, h: 28, w: 28, kh: 3, kw: 3, stride: 1, pad: 1, groups: 1},
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
			want, unit := kernelstest.Of(op, 0, args...).Reference(t)[0].F, kernelstest.Of(op, 0, sizes...).Reference(t)[0].F
			mean := map[isa.ISA]float64{}
			for _, l := range []isa.ISA{isa.AVX512, isa.AMX} {
				r := rig.With(l)
				for i, v := range shape.View[float32](r.Run(t, kernelstest.Of(op, 0, args...), nil, kernelstest.Serial{}).Out[0].Mem) {
					mean[l] += math.Abs(float64(v)-want[i]) / unit[i] / float64(len(want))
				}
			}
			t.Logf("%+v %s: off by %.3g on average; by vectors %.3g", k, which, mean[isa.AMX], mean[isa.AVX512])
			if mean[isa.AMX] > mean[isa.AVX512] {
				t.Error("vectors are more exact")
			}
		}
	}
}

// TestCellsHaveTheBitsOfSamples computes dw of many channels by cells of the weights, and by samples: with one band and several
// in a sample, and one sample and several in a partial sum. The scratch memory ends where the next page cannot be read.
func TestCellsHaveTheBitsOfSamples(t *testing.T) {
	for l := isa.AVX2; l <= min(isa.Best(), isa.AVX512); l++ {
		for _, k := range []convolution{
			{n: 16, c: 40, o: 300, h: 7, w: 6, kh: 3, kw: 3, stride: 1, pad: 1, groups: 1},
			{n: 33, c: 33, o: 200, h: 8, w: 8, kh: 3, kw: 3, stride: 1, pad: 1, groups: 1},
			{n: 16, c: 24, o: 260, h: 40, w: 36, kh: 3, kw: 3, stride: 2, pad: 1, groups: 1},
			{n: 18, c: 64, o: 512, h: 24, w: 24, kh: 3, kw: 3, stride: 1, pad: 1, groups: 1},
			{n: 16, c: 3, o: 64, h: 40, w: 40, kh: 20, kw: 20, stride: 20, groups: 1},
		} {
			for _, bf16 := range []bool{false, true} {
				oh, ow := k.out()
				s := &convShape{
					on: work.TargetOf(l), n: k.n, c: k.c, o: k.o, groups: 1, kh: k.kh, kw: k.kw, h: k.h, w: k.w, oh: oh, ow: ow,
					stride: k.stride, pad: k.pad, apart: 1, bf16: bf16,
				}
				s.of = s
				rng := rand.New(rand.NewPCG(9, 10))
				x, dy := make([]float32, s.lenX()), make([]float32, s.lenY())
				for _, a := range [][]float32{x, dy} {
					for i := range a {
						a[i] = float32(rng.NormFloat64())
					}
				}
				var dw [2][]float32
				for i := range dw {
					d := newConvDirectWGrad(s)
					if d.cuts == 0 {
						t.Fatalf("%v %+v: it has no cells", l, k)
					}
					if i == 1 {
						d.cuts = 0
					}
					dw[i] = make([]float32, s.lenW())
					d.run(kernelstest.Serial{}, x, dy, dw[i], newCliff(t, d.scratch()).floats(d.scratch()), nil)
				}
				for i, v := range dw[0] {
					if math.Float32bits(v) != math.Float32bits(dw[1][i]) {
						t.Fatalf("%v %+v, bf16 %v: element %d is %v by cells, %v by samples", l, k, bf16, i, v, dw[1][i])
					}
				}
			}
		}
	}
}
