package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// team shares chunks between threads by a counter, as a device does.
type team struct{ threads int }

func (p team) Threads() int { return p.threads }

func (p team) Do(chunks int, t Task) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		next int
	)
	for range p.threads {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= chunks {
					return
				}
				t.Chunk(i)
			}
		})
	}
	wg.Wait()
}

func noise(dims ...int) ref.Array {
	rng := rand.New(rand.NewPCG(1, 1))
	a := ref.New(shape.F32(dims...))
	for i := range a.F {
		a.F[i] = float64(rng.Float32() - 0.5)
	}
	return a
}

// bench reports GFLOP/s by the op's own cost.
func bench(b *testing.B, op graph.Op, in ...ref.Array) {
	l, err := prepare(op, in, nil)
	if err != nil {
		b.Fatal(err)
	}
	for threads := 1; threads <= 2; threads++ {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			for b.Loop() {
				if err := l.kernel.Run(team{threads}, &l.args); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(l.node.Cost().Flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkMatMul is squares and the products of the workloads: M x N x K,
// with a batch in front where there is one. OpenBLAS, where it is installed, gets
// the tiles that threads share.
func BenchmarkMatMul(b *testing.B) {
	for l := Generic; l <= Best(); l++ {
		b.Run(l.String(), func(b *testing.B) {
			defer Use(Using())
			Use(l)
			benchMatMuls(b)
		})
	}
	withLibrary(func() { b.Run("openblas", benchMatMuls) })
}

func benchMatMuls(b *testing.B) {
	for _, s := range [][]int{
		{256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {128, 512, 784}, {768, 512, 128}, {128, 10, 256}, {10, 256, 128}, {48, 64, 64, 32},
	} {
		benchMatMul(b, false, false, s)
	}
	for _, s := range [][]int{{256, 256, 256}, {768, 512, 128}, {128, 256, 512}, {384, 1536, 2048}} {
		benchMatMul(b, false, true, s)
		benchMatMul(b, true, false, s)
	}
}

// BenchmarkBF16 is products of the gpt-small and gpt2 workloads.
func BenchmarkBF16(b *testing.B) {
	for _, s := range [][]int{{2048, 1536, 384}, {256, 3072, 768}, {1024, 1024, 1024}} {
		for i, trans := range [][2]bool{{}, {false, true}, {true, false}} {
			b.Run(fmt.Sprint(s, []string{"", "transB", "transA"}[i]), func(b *testing.B) {
				op := ops.MatMul{TransA: trans[0], TransB: trans[1], BF16: true}
				x, y := []int{s[0], s[2]}, []int{s[2], s[1]}
				if op.TransA {
					slices.Reverse(x)
				}
				if op.TransB {
					slices.Reverse(y)
				}
				bench(b, op, noise(x...), noise(y...))
			})
		}
	}
}

// BenchmarkKept is products of bfloat16 with weights that come from memory, which
// are packed by each run, or kept packed.
func BenchmarkKept(b *testing.B) {
	for _, rows := range []int{16, 64, 256, 1024} {
		for _, kept := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dx3072x768/kept=%v", rows, kept), func(b *testing.B) { benchKept(b, rows, kept) })
		}
	}
}

func benchKept(b *testing.B, rows int, kept bool) {
	var layers [16]*launch // together more than caches hold
	for i := range layers {
		l, err := prepare(ops.MatMul{BF16: true}, []ref.Array{noise(rows, 768), noise(768, 3072)}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, bytes, _ := l.kernel.(Keeper).Keeps(); kept {
			l.args.Cache = newGuarded(int(bytes)).mem
		}
		if err := l.kernel.Run(serial{}, &l.args); err != nil {
			b.Fatal(err)
		}
		l.args.Cached = kept
		layers[i] = l
	}
	i := 0
	for b.Loop() {
		l := layers[i%len(layers)]
		i++
		if err := l.kernel.Run(team{2}, &l.args); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(layers[0].node.Cost().Flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func benchMatMul(b *testing.B, transA, transB bool, s []int) {
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
		bench(b, ops.MatMul{TransA: transA, TransB: transB}, noise(append(slices.Clone(lead), a...)...), noise(append(slices.Clone(lead), w...)...))
	})
}

// BenchmarkConv is the second convolution of the cnn workload.
func BenchmarkConv(b *testing.B) {
	x, w, dy := noise(64, 32, 14, 14), noise(64, 32, 3, 3), noise(64, 64, 14, 14)
	b.Run("y", func(b *testing.B) { bench(b, ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, x, w) })
	b.Run("dx", func(b *testing.B) { bench(b, ops.Conv2DGradX{Stride: 1, Pad: 1, Groups: 1, H: 14, W: 14}, w, dy) })
	b.Run("dw", func(b *testing.B) { bench(b, ops.Conv2DGradW{Stride: 1, Pad: 1, Groups: 1, KH: 3, KW: 3}, x, dy) })
	x, w, dy = noise(64, 1, 28, 28), noise(32, 1, 3, 3), noise(64, 32, 28, 28)
	b.Run("first y", func(b *testing.B) { bench(b, ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, x, w) })
	b.Run("first dw", func(b *testing.B) { bench(b, ops.Conv2DGradW{Stride: 1, Pad: 1, Groups: 1, KH: 3, KW: 3}, x, dy) })
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
	x, w, dy := noise(n, c, h, h), noise(o, c/groups, k, k), noise(n, o, out, out)
	b.Run("y", func(b *testing.B) { bench(b, ops.Conv2D{Stride: stride, Pad: pad, Groups: groups}, x, w) })
	b.Run("dx", func(b *testing.B) {
		bench(b, ops.Conv2DGradX{Stride: stride, Pad: pad, Groups: groups, H: h, W: h}, w, dy)
	})
	b.Run("dw", func(b *testing.B) {
		bench(b, ops.Conv2DGradW{Stride: stride, Pad: pad, Groups: groups, KH: k, KW: k}, x, dy)
	})
}

// BenchmarkPool is the pools of the cnn workload.
func BenchmarkPool(b *testing.B) {
	for _, s := range [][2]int{{32, 28}, {64, 14}} {
		x, dy, idx := noise(64, s[0], s[1], s[1]), noise(64, s[0], s[1]/2, s[1]/2), ref.New(shape.I32(64, s[0], s[1]/2, s[1]/2))
		for i := range idx.I {
			half := s[1] / 2
			idx.I[i] = int32(i/half%half*2*s[1] + i%half*2)
		}
		b.Run(fmt.Sprint("max/", s[1]), func(b *testing.B) { bench(b, ops.MaxPool2D{Kernel: 2, Stride: 2}, x) })
		b.Run(fmt.Sprint("max_grad/", s[1]), func(b *testing.B) { bench(b, ops.MaxPool2DGrad{H: s[1], W: s[1]}, idx, dy) })
	}
}

// BenchmarkAttention is the gpt-nano and gpt-small workloads' attention.
func BenchmarkAttention(b *testing.B) {
	for _, s := range [][4]int{{12, 64, 128, 4}, {8, 256, 384, 6}} {
		qkv := noise(s[0], s[1], 3*s[2])
		op := ops.CausalSelfAttention{Heads: s[3]}
		b.Run(fmt.Sprintf("forward/T%d", s[1]), func(b *testing.B) { bench(b, op, qkv) })
		y, lse, dy := noise(s[0], s[1], s[2]), noise(s[0], s[3], s[1]), noise(s[0], s[1], s[2])
		b.Run(fmt.Sprintf("backward/T%d", s[1]), func(b *testing.B) {
			bench(b, ops.CausalSelfAttentionGrad(op), qkv, y, lse, dy)
		})
	}
}

// BenchmarkElementwise is one million elements.
func BenchmarkElementwise(b *testing.B) {
	x := noise(1 << 20)
	for _, fn := range []string{"relu", "gelu_tanh", "gelu_erf", "tanh", "exp", "log"} {
		b.Run(fn, func(b *testing.B) { bench(b, ops.Unary{Fn: fn}, x) })
	}
	for _, fn := range []string{"relu", "gelu_tanh"} {
		b.Run(fn+"_grad", func(b *testing.B) { bench(b, ops.UnaryGrad{Fn: fn}, x, x) })
	}
	b.Run("add", func(b *testing.B) { bench(b, ops.Binary{Fn: "add"}, x, x) })
	b.Run("sum_squares", func(b *testing.B) { bench(b, ops.SumSquares{}, x) })
	b.Run("dropout", func(b *testing.B) {
		bench(b, ops.Dropout{P: 0.1}, x, ref.Ints([]int32{1}), ref.Ints([]int32{0}))
	})
	b.Run("adam", func(b *testing.B) {
		bench(b, ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Scale: 1}, x, x, x, x, ref.Ints([]int32{1}), noise())
	})
	b.Run("layer_norm_grad", func(b *testing.B) {
		bench(b, ops.LayerNormGrad{}, noise(2048, 384), noise(384), noise(2048), noise(2048), noise(2048, 384))
	})
	b.Run("cross_entropy", func(b *testing.B) {
		bench(b, ops.CrossEntropy{}, noise(2048, 65), ref.Ints(make([]int32, 2048), 2048))
	})
	b.Run("cross_entropy_large", func(b *testing.B) {
		bench(b, ops.CrossEntropy{}, noise(64, 50257), ref.Ints(make([]int32, 64), 64))
	})
	b.Run("cross_entropy_grad_large", func(b *testing.B) {
		bench(b, ops.CrossEntropyGrad{}, noise(64, 50257), ref.Ints(make([]int32, 64), 64), noise(64), noise())
	})
	b.Run("layer_norm", func(b *testing.B) {
		bench(b, ops.LayerNorm{Eps: 1e-5}, noise(2048, 384), noise(384), noise(384))
	})
	b.Run("sum_rows", func(b *testing.B) { bench(b, ops.SumTo{Shape: shape.Of(1536)}, noise(2048, 1536)) })
	b.Run("transpose", func(b *testing.B) { bench(b, ops.Transpose{Perm: []int{1, 0}}, noise(1024, 1024)) })
}
