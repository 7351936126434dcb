package kernels

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

func TestKernelsAgreeWithReference(t *testing.T) { rig.EachISA(t, testAgreement) }

func testAgreement(t *testing.T, r kernelstest.Rig) {
	for _, kind := range ref.Kinds() {
		t.Run(kind, func(t *testing.T) {
			draw := kernelstest.Cases[kind]
			if draw == nil {
				t.Fatalf("no case draws %s", kind)
			}
			rapid.Check(t, func(t *rapid.T) {
				s := kernelstest.NewSource(t)
				r.Check(t, draw(s), 1)
			})
		})
	}
}

func TestEveryReferenceOpHasAKernel(t *testing.T) {
	have := map[string]bool{}
	for name := range table {
		kind, _, _ := strings.Cut(name, "(")
		have[kind] = true
	}
	for _, kind := range ref.Kinds() {
		if !have[kind] {
			t.Errorf("no kernel computes %s", kind)
		}
		delete(have, kind)
	}
	if len(have) > 0 {
		t.Errorf("kernels without a reference: %v", slices.Sorted(maps.Keys(have)))
	}
}

func TestRunAllocatesNothing(t *testing.T) { rig.EachISAInTurn(t, testAllocations) }

func testAllocations(t *testing.T, r kernelstest.Rig) {
	for _, kind := range ref.Kinds() {
		draw := kernelstest.Cases[kind]
		if draw == nil {
			continue // testAgreement reports it
		}
		t.Run(kind, func(t *testing.T) {
			gen := rapid.Custom(func(t *rapid.T) kernelstest.Sample { return draw(kernelstest.NewSource(t)) })
			for seed := range 5 {
				s := gen.Example(seed)
				l, err := r.Prepare(s.Op, s.In, nil)
				if err != nil {
					t.Fatal(err)
				}
				n := testing.AllocsPerRun(3, func() {
					if err := l.Kernel.Run(kernelstest.Serial{}, &l.Args); err != nil {
						t.Fatal(err)
					}
				})
				if n != 0 {
					t.Fatalf("%v allocates %v times", l.Node, n)
				}
			}
		})
	}
}

func TestEveryOpHasACase(t *testing.T) {
	for _, kind := range ops.Kinds() {
		if kernelstest.Cases[kind] == nil {
			t.Errorf("no case draws %s", kind)
		}
	}
}

func TestUnsupportedSaysWhy(t *testing.T) {
	n := &graph.Node{Op: ops.MatMul{},
		In:  []*graph.Value{{Meta: shape.I32(2, 2)}, {Meta: shape.F32(2, 2)}},
		Out: []*graph.Value{{Meta: shape.F32(2, 2)}}}
	_, err := New(n, rig.On)
	if !errors.Is(err, device.ErrUnsupported) || !strings.Contains(err.Error(), "matmul(i32,f32)->f32") {
		t.Fatalf("got %v", err)
	}
}

// TestNonFinite checks what IEEE 754 asks for where a comparison could lose it.
func TestNonFinite(t *testing.T) {
	r := rig
	nan, inf := math.NaN(), math.Inf(1)
	f := ref.Floats
	for _, c := range []struct {
		op   graph.Op
		in   []ref.Array
		want []float64
	}{
		{ops.Unary{Fn: "relu"}, []ref.Array{f([]float64{nan, -nan, inf, -inf, -0.5}, 5)}, []float64{nan, nan, inf, 0, 0}},
		{ops.Unary{Fn: "exp"}, []ref.Array{f([]float64{nan, inf, -inf, 1000, -1000}, 5)}, []float64{nan, inf, 0, inf, 0}},
		{ops.Unary{Fn: "tanh"}, []ref.Array{f([]float64{nan, inf, -inf}, 3)}, []float64{nan, 1, -1}},
		{ops.Unary{Fn: "sigmoid"}, []ref.Array{f([]float64{nan, inf, -inf}, 3)}, []float64{nan, 1, 0}},
		{ops.Unary{Fn: "log"}, []ref.Array{f([]float64{nan, 0, -1, inf}, 4)}, []float64{nan, -inf, nan, inf}},
		{ops.UnaryGrad{Fn: "relu"}, []ref.Array{f([]float64{nan, 0, 1}, 3), f([]float64{1, nan, inf}, 3)}, []float64{1, 0, inf}},
		{ops.Reduce{Fn: "max"}, []ref.Array{f([]float64{1, nan, 3}, 3)}, []float64{nan}},
		{ops.MaxPool2D{Kernel: 2, Stride: 2}, []ref.Array{f([]float64{1, nan, 3, 2}, 1, 1, 2, 2)}, []float64{nan}},
		{ops.Softmax{}, []ref.Array{f([]float64{1, nan}, 1, 2)}, []float64{nan, nan}},
		{ops.ClipFactor{MaxNorm: 1, Scale: 1}, []ref.Array{f([]float64{nan})}, []float64{nan}},
		{ops.GradNorm{Scale: 1}, []ref.Array{f([]float64{nan})}, []float64{nan}},
	} {
		l := r.Run(t, kernelstest.Of(c.op, 0, c.in...), nil, kernelstest.Serial{})
		kernelstest.Compare(t, l, 0, f(c.want, l.Node.Out[0].Meta.Shape...), 0)
	}
}
