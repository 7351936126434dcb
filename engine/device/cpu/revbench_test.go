package cpu

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/kernels"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func mem(n int) []byte {
	f := make([]float32, n/4+64)
	for i := range f {
		f[i] = float32(i%17)*0.01 - 0.05
	}
	for uintptr(unsafe.Pointer(&f[0]))%64 != 0 {
		f = f[1:]
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), n)
}

func timeOp(p *pool, op graph.Op, idMax int, in ...shape.Meta) (ms float64, err error) {
	n := &graph.Node{Op: op}
	a := kernels.Args{}
	for i, m := range in {
		n.In = append(n.In, &graph.Value{Name: fmt.Sprint("in", i), Meta: m})
		b := mem(int(m.Bytes()))
		if m.DType == shape.Int32 {
			v := shape.View[int32](b)
			for i := range v {
				v[i] = int32((i * 7919) % max(1, idMax))
			}
		}
		a.In = append(a.In, b)
	}
	outs, err := op.Infer(in)
	if err != nil {
		return 0, err
	}
	for i, m := range outs {
		n.Out = append(n.Out, &graph.Value{Name: fmt.Sprint("out", i), Meta: m, Node: n, Out: i})
		a.Out = append(a.Out, mem(int(m.Bytes())))
	}
	k, err := kernels.New(n)
	if err != nil {
		return 0, err
	}
	a.Scratch = mem(int(k.ScratchBytes()))
	var ts []float64
	start := time.Now()
	for i := 0; i < 3 || time.Since(start) < 150*time.Millisecond && i < 400; i++ {
		s := time.Now()
		if err := k.Run(p, &a); err != nil {
			return 0, err
		}
		ts = append(ts, float64(time.Since(s).Nanoseconds())/1e6)
	}
	sort.Float64s(ts)
	return ts[0], nil
}

func TestRevBench(t *testing.T) {
	want := os.Getenv("REVBENCH")
	if want == "" {
		t.Skip()
	}
	if l, err := kernels.ParseLevel(os.Getenv("BERTH_CPU")); err == nil {
		kernels.Use(l)
	}
	p := newPool(map[bool]int{true: 1, false: 2}[os.Getenv("ONE") != ""])
	defer p.close()
	F, I := shape.F32, shape.I32
	run := func(name string, op graph.Op, ids int, in ...shape.Meta) {
		if want != "all" && !strings.Contains(name, want) {
			return
		}
		ms, err := timeOp(p, op, ids, in...)
		if err != nil {
			fmt.Printf("%s\tERR %v\n", name, err)
			return
		}
		fmt.Printf("%s\t%.4f\n", name, ms)
	}
	mm := func(m, k, n int, ta, tb bool, batch ...int) {
		a, b := []int{m, k}, []int{k, n}
		if ta {
			a = []int{k, m}
		}
		if tb {
			b = []int{n, k}
		}
		a, b = append(append([]int{}, batch...), a...), append(append([]int{}, batch...), b...)
		run(fmt.Sprintf("mm m%d k%d n%d ta%v tb%v batch%v", m, k, n, ta, tb, batch), ops.MatMul{TransA: ta, TransB: tb}, 0, F(a...), F(b...))
	}
	for _, s := range [][3]int{{1024, 1024, 1024}, {1, 1024, 1024}, {1, 4096, 4096}, {1, 768, 50257}, {2, 4096, 4096}, {4, 4096, 4096}, {8, 1023, 1025}, {3, 100, 100}, {32, 784, 10}, {128, 784, 10}, {10000, 16, 16}, {10000, 10, 3}, {100000, 3, 5}, {100000, 30, 1}, {16, 100000, 16}, {1, 100000, 1}, {10, 60000, 784}, {784, 128, 10}, {127, 129, 131}, {512, 512, 1}, {1, 512, 512}, {2048, 2048, 1}, {2048, 1, 2048}, {1024, 8, 1024}, {31, 4096, 33}, {64, 4096, 64}, {4096, 64, 4096}, {1000, 1000, 7}, {333, 777, 555}, {2048, 33, 9}, {40000, 128, 65}, {256, 768, 50257}} {
		for _, ta := range []bool{false, true} {
			for _, tb := range []bool{false, true} {
				mm(s[0], s[1], s[2], ta, tb)
			}
		}
	}
	mm(33, 33, 33, false, false, 64)
	mm(64, 64, 64, false, true, 96)
	mm(7, 7, 7, false, false, 1000)
	mm(1, 64, 64, false, false, 512)
	type cv struct{ n, c, h, o, k, s, p, g int }
	for _, c := range []cv{{64, 16, 28, 16, 3, 1, 1, 1}, {64, 16, 28, 32, 3, 2, 1, 1}, {64, 32, 14, 32, 3, 1, 1, 1}, {64, 32, 14, 64, 3, 2, 1, 1}, {64, 64, 7, 64, 3, 1, 1, 1}, {64, 32, 28, 64, 4, 4, 0, 1}, {16, 64, 32, 64, 3, 1, 1, 1}, {16, 64, 32, 128, 3, 2, 1, 1}, {32, 256, 14, 64, 1, 1, 0, 1}, {32, 64, 14, 256, 1, 1, 0, 1}, {32, 64, 28, 128, 1, 2, 0, 1}, {8, 64, 56, 64, 3, 1, 1, 64}, {8, 64, 56, 64, 3, 2, 1, 64}, {4, 3, 224, 64, 7, 2, 3, 1}, {64, 1, 28, 6, 5, 1, 2, 1}, {64, 6, 14, 16, 5, 1, 0, 1}, {16, 3, 64, 32, 3, 1, 1, 1}, {16, 64, 28, 64, 3, 1, 1, 4}, {16, 32, 32, 10, 3, 1, 1, 1}, {16, 20, 32, 20, 3, 1, 1, 1}, {1, 64, 56, 64, 3, 1, 1, 1}, {32, 512, 7, 512, 3, 1, 1, 1}, {64, 128, 4, 128, 3, 1, 1, 1}, {16, 48, 16, 48, 3, 2, 1, 1}, {8, 32, 64, 1, 3, 1, 1, 1}, {32, 16, 16, 16, 4, 4, 0, 1}, {2, 3, 224, 768, 16, 16, 0, 1}} {
		oh := (c.h+2*c.p-c.k)/c.s + 1
		x, w, y := F(c.n, c.c, c.h, c.h), F(c.o, c.c/c.g, c.k, c.k), F(c.n, c.o, oh, oh)
		id := fmt.Sprintf("n%d c%d h%d o%d k%d s%d p%d g%d", c.n, c.c, c.h, c.o, c.k, c.s, c.p, c.g)
		run("conv y "+id, ops.Conv2D{Stride: c.s, Pad: c.p, Groups: c.g}, 0, x, w)
		run("conv x "+id, ops.Conv2DGradX{Stride: c.s, Pad: c.p, Groups: c.g, H: c.h, W: c.h}, 0, w, y)
		run("conv w "+id, ops.Conv2DGradW{Stride: c.s, Pad: c.p, Groups: c.g, KH: c.k, KW: c.k}, 0, x, y)
	}
	type pl struct{ n, c, h, k, s, p int }
	for _, c := range []pl{{16, 64, 56, 2, 2, 0}, {16, 64, 56, 3, 2, 1}, {16, 64, 56, 3, 1, 1}, {16, 64, 7, 7, 7, 0}, {64, 32, 28, 4, 4, 0}} {
		oh := (c.h+2*c.p-c.k)/c.s + 1
		x, y := F(c.n, c.c, c.h, c.h), F(c.n, c.c, oh, oh)
		id := fmt.Sprintf("n%d c%d h%d k%d s%d p%d", c.n, c.c, c.h, c.k, c.s, c.p)
		run("maxpool y "+id, ops.MaxPool2D{Kernel: c.k, Stride: c.s, Pad: c.p}, 0, x)
		run("maxpool x "+id, ops.MaxPool2DGrad{H: c.h, W: c.h}, 1, I(c.n, c.c, oh, oh), y)
		run("avgpool y "+id, ops.AvgPool2D{Kernel: c.k, Stride: c.s, Pad: c.p}, 0, x)
		run("avgpool x "+id, ops.AvgPool2DGrad{Kernel: c.k, Stride: c.s, Pad: c.p, H: c.h, W: c.h}, 0, y)
	}
	for _, s := range [][4]int{{8, 64, 56, 56}, {64, 512, 7, 7}, {256, 128, 1, 1}, {2, 3, 224, 224}, {128, 1000, 1, 1}} {
		x, c := F(s[0], s[1], s[2], s[3]), F(s[1])
		if s[2] == 1 {
			x = F(s[0], s[1])
		}
		run(fmt.Sprint("batchnorm y ", s), ops.BatchNorm{Eps: 1e-5}, 0, x, c, c)
		run(fmt.Sprint("batchnorm x ", s), ops.BatchNormGrad{}, 0, x, c, c, c, x)
	}
	for _, s := range [][2]int{{100000, 8}, {2048, 768}, {64, 4096}, {1, 100000}, {4096, 33}, {16384, 64}} {
		r, d := s[0], s[1]
		x, g, m := F(r, d), F(d), F(r)
		run(fmt.Sprint("layernorm y ", s), ops.LayerNorm{Eps: 1e-5}, 0, x, g, g)
		run(fmt.Sprint("layernorm x ", s), ops.LayerNormGrad{}, 0, x, g, m, m, x)
		run(fmt.Sprint("softmax y ", s), ops.Softmax{}, 0, x)
		run(fmt.Sprint("log_softmax y ", s), ops.LogSoftmax{}, 0, x)
		run(fmt.Sprint("softmax x ", s), ops.SoftmaxGrad{}, 0, x, x)
		run(fmt.Sprint("log_softmax x ", s), ops.LogSoftmaxGrad{}, 0, x, x)
	}
	for _, s := range [][2]int{{256, 50257}, {100000, 10}, {100000, 2}, {4096, 65}, {1, 50257}} {
		x, i, r := F(s[0], s[1]), I(s[0]), F(s[0])
		run(fmt.Sprint("ce y ", s), ops.CrossEntropy{}, s[1], x, i)
		run(fmt.Sprint("ce x ", s), ops.CrossEntropyGrad{}, s[1], x, i, r, F())
		run(fmt.Sprint("correct ", s), ops.Correct{}, s[1], x, i)
	}
	for _, s := range [][4]int{{1, 2048, 8, 64}, {4, 1024, 12, 64}, {16, 64, 8, 16}, {16, 256, 4, 8}, {1, 8192, 1, 64}, {2, 1000, 3, 33}, {64, 32, 4, 32}, {8, 256, 6, 64}, {4, 512, 4, 256}} {
		b, T, h, d := s[0], s[1], s[2], s[3]
		q, y, l := F(b, T, 3*h*d), F(b, T, h*d), F(b, h, T)
		run(fmt.Sprint("attention y ", s), ops.CausalSelfAttention{Heads: h}, 0, q)
		run(fmt.Sprint("attention x ", s), ops.CausalSelfAttentionGrad{Heads: h}, 0, q, y, l, y)
	}
	for _, s := range [][3]int{{256, 50257, 768}, {100000, 65, 8}, {16384, 65, 128}, {65536, 1000, 1}} {
		run(fmt.Sprint("gather ", s), ops.Gather{}, s[1], F(s[1], s[2]), I(s[0]))
		run(fmt.Sprint("scatter ", s), ops.ScatterAdd{Rows: s[1]}, s[1], I(s[0]), F(s[0], s[2]))
	}
	for _, s := range []struct {
		axes []int
		dims []int
	}{{[]int{0}, []int{10000, 33}}, {[]int{1}, []int{10000, 33}}, {[]int{1}, []int{64, 100, 100}}, {[]int{0, 2}, []int{64, 100, 100}}, {[]int{0, 2, 3}, []int{16, 64, 56, 56}}, {[]int{0}, []int{100000, 1}}, {[]int{0}, []int{100000, 3}}, {[]int{0}, []int{1 << 22}}, {[]int{2}, []int{100, 100, 100}}, {[]int{0}, []int{128, 10}}} {
		for _, fn := range []string{"sum", "max"} {
			run(fmt.Sprint("reduce ", fn, " ", s.axes, s.dims), ops.Reduce{Fn: fn, Axes: s.axes}, 0, F(s.dims...))
		}
	}
	run("transpose 1024", ops.Transpose{Perm: []int{1, 0}}, 0, F(1024, 1024))
	run("transpose 10000x3", ops.Transpose{Perm: []int{1, 0}}, 0, F(100000, 3))
	run("transpose nchw-nhwc", ops.Transpose{Perm: []int{0, 2, 3, 1}}, 0, F(16, 64, 56, 56))
	run("transpose heads", ops.Transpose{Perm: []int{0, 2, 1, 3}}, 0, F(8, 256, 6, 64))
	run("add rowcol", ops.Binary{Fn: "add"}, 0, F(2000, 1), F(1, 2000))
	run("add col3", ops.Binary{Fn: "add"}, 0, F(500000, 3), F(3))
	run("add chan7x7", ops.Binary{Fn: "add"}, 0, F(64, 512, 7, 7), F(512, 1, 1))
	run("add col1", ops.Binary{Fn: "add"}, 0, F(500000, 3), F(500000, 1))
	run("gelu", ops.Unary{Fn: "gelu_erf"}, 0, F(1<<20))
	run("tanh", ops.Unary{Fn: "tanh"}, 0, F(1<<20))
	run("relu", ops.Unary{Fn: "relu"}, 0, F(1<<20))
	run("exp", ops.Unary{Fn: "exp"}, 0, F(1<<20))
	run("dropout", ops.Dropout{P: 0.1}, 1, F(1<<10, 1<<10), I(), I())
	run("concat", ops.Concat{Axis: 1}, 0, F(100000, 3), F(100000, 4))
	run("slice", ops.Slice{Start: []int{0, 1}, Stop: []int{100000, 4}}, 0, F(100000, 5))
	run("mse", ops.MSE{}, 0, F(1<<20), F(1<<20))
	run("bce", ops.BCE{}, 0, F(1<<20), F(1<<20))
}
