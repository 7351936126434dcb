package kernels

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// bench reports GFLOP/s by the op's own cost.
func bench(b *testing.B, r kernelstest.Rig, op graph.Op, in ...ref.Array) {
	l, err := r.Prepare(op, in, nil)
	if err != nil {
		b.Fatal(err)
	}
	for threads := 1; threads <= 2; threads++ {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			for b.Loop() {
				if err := l.Kernel.Run(kernelstest.Team{N: threads}, &l.Args); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(l.Node.Cost().Flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkMatMul is squares and the products of the workloads: M x N x K,
// with a batch in front where there is one.
func BenchmarkMatMul(b *testing.B) {
	for set := isa.Generic; set <= isa.Best(); set++ {
		b.Run(set.String(), func(b *testing.B) { benchMatMuls(b, rig.With(set)) })
	}
}

func benchMatMuls(b *testing.B, r kernelstest.Rig) {
	for _, s := range [][]int{
		{256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {128, 512, 784}, {768, 512, 128}, {128, 10, 256}, {10, 256, 128}, {48, 64, 64, 32},
	} {
		benchMatMul(b, r, false, false, s)
	}
	for _, s := range [][]int{{256, 256, 256}, {768, 512, 128}, {128, 256, 512}, {384, 1536, 2048}} {
		benchMatMul(b, r, false, true, s)
		benchMatMul(b, r, true, false, s)
	}
}

// BenchmarkLayers is the products of layers of the gpt-small, gpt2, gpt-nano and mlp workloads, with rows, inputs and
// outputs, by bfloat16 and float32: y, dx and dw.
func BenchmarkLayers(b *testing.B) {
	for _, s := range [][3]int{
		{2048, 384, 1152}, {2048, 384, 384}, {2048, 384, 1536}, {2048, 1536, 384},
		{256, 768, 2304}, {256, 768, 768}, {256, 768, 3072}, {256, 3072, 768},
		{768, 128, 384}, {768, 128, 128}, {768, 128, 512}, {768, 512, 128}, {128, 784, 512}, {128, 512, 256},
	} {
		for _, bf16 := range []bool{true, false} {
			x, w, dy := kernelstest.Noise(s[0], s[1]), kernelstest.Noise(s[1], s[2]), kernelstest.Noise(s[0], s[2])
			run := func(product string, op graph.Op, a, c ref.Array) {
				b.Run(fmt.Sprintf("%d %d %d/bf16=%v/%s", s[0], s[1], s[2], bf16, product), func(b *testing.B) { bench(b, rig, op, a, c) })
			}
			run("y", ops.MatMul{BF16: bf16}, x, w)
			run("dx", ops.MatMul{TransB: true, BF16: bf16}, dy, w)
			run("dw", ops.MatMul{TransA: true, BF16: bf16}, x, dy)
		}
	}
}

// BenchmarkPackCache is products of bfloat16 with weights that come from memory, which
// are packed by each run, or stay packed.
func BenchmarkPackCache(b *testing.B) {
	for _, rows := range []int{16, 64, 256, 1024} {
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dx3072x768/cached=%v", rows, cached), func(b *testing.B) { benchPackCache(b, rows, cached) })
		}
	}
}

func benchPackCache(b *testing.B, rows int, cached bool) {
	var layers [16]*kernelstest.Launch // together more than caches hold
	for i := range layers {
		l, err := rig.Prepare(ops.MatMul{BF16: true}, []ref.Array{kernelstest.Noise(rows, 768), kernelstest.Noise(768, 3072)}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if cached {
			l.Args.Cache = kernelstest.NewGuarded(int(PackCacheOf(l.Kernel).Bytes)).Mem
		}
		if err := l.Kernel.Run(kernelstest.Serial{}, &l.Args); err != nil {
			b.Fatal(err)
		}
		l.Args.Cached = cached
		layers[i] = l
	}
	i := 0
	for b.Loop() {
		l := layers[i%len(layers)]
		i++
		if err := l.Kernel.Run(kernelstest.Team{N: 2}, &l.Args); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(layers[0].Node.Cost().Flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func benchMatMul(b *testing.B, r kernelstest.Rig, transA, transB bool, s []int) {
	n := len(s) - 3
	lead, x, y, z := s[:n], s[n], s[n+1], s[n+2]
	a, w, name := []int{x, z}, []int{z, y}, strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", "x"), "[]")
	if transA {
		a, name = []int{z, x}, name+"/transA"
	}
	if transB {
		w, name = []int{y, z}, name+"/transB"
	}
	b.Run(name, func(b *testing.B) {
		bench(b, r, ops.MatMul{TransA: transA, TransB: transB}, kernelstest.Noise(append(slices.Clone(lead), a...)...), kernelstest.Noise(append(slices.Clone(lead), w...)...))
	})
}

// BenchmarkConv is the second convolution of the cnn workload.
func BenchmarkConv(b *testing.B) {
	for _, of := range []ops.Conv2D{{Stride: 1, Pad: 1, Groups: 1}, {Stride: 1, Pad: 1, Groups: 1, BF16: true}} {
		format := "float32 "
		if of.BF16 {
			format = "bf16 "
		}
		x, w, dy := kernelstest.Noise(64, 32, 14, 14), kernelstest.Noise(64, 32, 3, 3), kernelstest.Noise(64, 64, 14, 14)
		b.Run(format+"y", func(b *testing.B) { bench(b, rig, of, x, w) })
		b.Run(format+"dx", func(b *testing.B) { bench(b, rig, ops.Conv2DGradX{Of: of, H: 14, W: 14}, w, dy) })
		b.Run(format+"dw", func(b *testing.B) { bench(b, rig, ops.Conv2DGradW{Of: of, KH: 3, KW: 3}, x, dy) })
		x, w, dy = kernelstest.Noise(64, 1, 28, 28), kernelstest.Noise(32, 1, 3, 3), kernelstest.Noise(64, 32, 28, 28)
		b.Run(format+"first y", func(b *testing.B) { bench(b, rig, of, x, w) })
		b.Run(format+"first dw", func(b *testing.B) { bench(b, rig, ops.Conv2DGradW{Of: of, KH: 3, KW: 3}, x, dy) })
	}
}

// BenchmarkManyChannels is convolutions of residual networks.
func BenchmarkManyChannels(b *testing.B) {
	for _, s := range [][7]int{{64, 32, 14, 64, 3, 1, 1}, {8, 64, 56, 64, 3, 1, 1}, {16, 128, 28, 128, 3, 1, 1}, {16, 256, 14, 256, 3, 1, 1}, {16, 512, 7, 512, 3, 1, 1}, {8, 256, 56, 64, 1, 1, 0}, {16, 512, 7, 2048, 1, 1, 0}} {
		b.Run(strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", "x"), "[]"), func(b *testing.B) { benchConv(b, s, 1) })
	}
}

// BenchmarkStride is convolutions with a stride: N, C, H, O, K, S and the
// padding.
func BenchmarkStride(b *testing.B) {
	for _, s := range [][7]int{{16, 64, 32, 128, 3, 2, 1}, {16, 48, 16, 48, 3, 2, 1}, {2, 3, 224, 768, 16, 16, 0}, {32, 16, 16, 16, 4, 4, 0}} {
		b.Run(strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", "x"), "[]"), func(b *testing.B) { benchConv(b, s, 1) })
	}
}

// BenchmarkFewChannels is convolutions whose output channels do not fill vectors.
func BenchmarkFewChannels(b *testing.B) {
	for _, s := range [][7]int{{64, 6, 14, 16, 5, 1, 0}, {16, 32, 32, 10, 3, 1, 1}, {16, 20, 32, 20, 3, 1, 1}, {16, 3, 64, 32, 3, 1, 1}} {
		b.Run(strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", "x"), "[]"), func(b *testing.B) { benchConv(b, s, 1) })
	}
}

// BenchmarkDepthwise is convolutions in which each channel stands alone.
func BenchmarkDepthwise(b *testing.B) {
	for stride := 1; stride <= 2; stride++ {
		b.Run(fmt.Sprint("stride=", stride), func(b *testing.B) { benchConv(b, [7]int{8, 64, 56, 64, 3, stride, 1}, 64) })
	}
}

// benchConv is a convolution and its gradients.
func benchConv(b *testing.B, s [7]int, groups int) {
	n, c, h, o, k, stride, pad := s[0], s[1], s[2], s[3], s[4], s[5], s[6]
	out := (h+2*pad-k)/stride + 1
	x, w, dy := kernelstest.Noise(n, c, h, h), kernelstest.Noise(o, c/groups, k, k), kernelstest.Noise(n, o, out, out)
	b.Run("y", func(b *testing.B) { bench(b, rig, ops.Conv2D{Stride: stride, Pad: pad, Groups: groups}, x, w) })
	b.Run("dx", func(b *testing.B) {
		bench(b, rig, ops.Conv2DGradX{Of: ops.Conv2D{Stride: stride, Pad: pad, Groups: groups}, H: h, W: h}, w, dy)
	})
	b.Run("dw", func(b *testing.B) {
		bench(b, rig, ops.Conv2DGradW{Of: ops.Conv2D{Stride: stride, Pad: pad, Groups: groups}, KH: k, KW: k}, x, dy)
	})
}

// BenchmarkPool is the pools of the cnn workload.
func BenchmarkPool(b *testing.B) {
	for _, s := range [][2]int{{32, 28}, {64, 14}} {
		x, dy, idx := kernelstest.Noise(64, s[0], s[1], s[1]), kernelstest.Noise(64, s[0], s[1]/2, s[1]/2), ref.New(shape.I32(64, s[0], s[1]/2, s[1]/2))
		for i := range idx.I {
			half := s[1] / 2
			idx.I[i] = int32(i/half%half*2*s[1] + i%half*2)
		}
		b.Run(fmt.Sprint("max/", s[1]), func(b *testing.B) { bench(b, rig, ops.MaxPool2D{Kernel: 2, Stride: 2}, x) })
		b.Run(fmt.Sprint("max_grad/", s[1]), func(b *testing.B) { bench(b, rig, ops.MaxPool2DGrad{H: s[1], W: s[1]}, idx, dy) })
	}
}

// BenchmarkAttention is the gpt-nano and gpt-small workloads' attention, and that of longer texts.
func BenchmarkAttention(b *testing.B) {
	b.Run("float32", func(b *testing.B) { benchAttention(b, false) })
	b.Run("bf16", func(b *testing.B) { benchAttention(b, true) })
}

func benchAttention(b *testing.B, bf16 bool) {
	for _, s := range [][4]int{{12, 64, 128, 4}, {8, 256, 384, 6}, {2, 1024, 384, 6}, {1, 4096, 384, 6}} {
		qkv := kernelstest.Noise(s[0], s[1], 3*s[2])
		op := ops.Attention{Heads: s[3], BF16: bf16}
		b.Run(fmt.Sprintf("forward/T%d", s[1]), func(b *testing.B) { bench(b, rig, op, qkv) })
		y, lse, dy := kernelstest.Noise(s[0], s[1], s[2]), kernelstest.Noise(s[0], s[3], s[1]), kernelstest.Noise(s[0], s[1], s[2])
		b.Run(fmt.Sprintf("backward/T%d", s[1]), func(b *testing.B) {
			bench(b, rig, ops.AttentionGrad(op), qkv, y, lse, dy)
		})
	}
}

// BenchmarkElementwise is one million elements.
func BenchmarkElementwise(b *testing.B) {
	x := kernelstest.Noise(1 << 20)
	for _, fn := range []string{"relu", "gelu_tanh", "gelu_erf", "tanh", "exp", "log"} {
		b.Run(fn, func(b *testing.B) { bench(b, rig, ops.Unary{Fn: fn}, x) })
	}
	for _, fn := range []string{"relu", "gelu_tanh"} {
		b.Run(fn+"_grad", func(b *testing.B) { bench(b, rig, ops.UnaryGrad{Fn: fn}, x, x) })
	}
	b.Run("add", func(b *testing.B) { bench(b, rig, ops.Binary{Fn: "add"}, x, x) })
	b.Run("sum_squares", func(b *testing.B) { bench(b, rig, ops.SumSquares{}, x) })
	b.Run("dropout", func(b *testing.B) {
		bench(b, rig, ops.Dropout{P: 0.1}, x, ref.Ints([]int32{1}), ref.Ints([]int32{0}))
	})
	b.Run("adam", func(b *testing.B) {
		bench(b, rig, ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Scale: 1}, x, x, x, x, ref.Ints([]int32{1}), kernelstest.Noise())
	})
	b.Run("layer_norm_grad", func(b *testing.B) {
		bench(b, rig, ops.LayerNormGrad{}, kernelstest.Noise(2048, 384), kernelstest.Noise(384), kernelstest.Noise(2048), kernelstest.Noise(2048), kernelstest.Noise(2048, 384))
	})
	b.Run("cross_entropy", func(b *testing.B) {
		bench(b, rig, ops.CrossEntropy{}, kernelstest.Noise(2048, 65), ref.Ints(make([]int32, 2048), 2048))
	})
	b.Run("cross_entropy_large", func(b *testing.B) {
		bench(b, rig, ops.CrossEntropy{}, kernelstest.Noise(64, 50257), ref.Ints(make([]int32, 64), 64))
	})
	b.Run("cross_entropy_grad_large", func(b *testing.B) {
		bench(b, rig, ops.CrossEntropyGrad{}, kernelstest.Noise(64, 50257), ref.Ints(make([]int32, 64), 64), kernelstest.Noise(64), kernelstest.Noise())
	})
	b.Run("layer_norm", func(b *testing.B) {
		bench(b, rig, ops.LayerNorm{Eps: 1e-5}, kernelstest.Noise(2048, 384), kernelstest.Noise(384), kernelstest.Noise(384))
	})
	b.Run("sum_rows", func(b *testing.B) { bench(b, rig, ops.SumTo{Shape: shape.Of(1536)}, kernelstest.Noise(2048, 1536)) })
	b.Run("transpose", func(b *testing.B) { bench(b, rig, ops.Transpose{Perm: []int{1, 0}}, kernelstest.Noise(1024, 1024)) })
}
