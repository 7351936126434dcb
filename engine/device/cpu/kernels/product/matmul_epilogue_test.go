package product

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// addBias is an epilogue that adds a bias to the output in place, writes the
// old value elsewhere and counts how often it saw each element.
type addBias struct {
	n         int
	out, bias []float32
	before    []float32
	seen      []int32
}

func (e *addBias) After(i0, i1, j0, j1 int) {
	for i := i0; i < i1; i++ {
		for j := j0; j < j1; j++ {
			at := i*e.n + j
			e.before[at] = e.out[at]
			e.out[at] += e.bias[j]
			e.seen[at]++
		}
	}
}

// epilogueCase is a product with its epilogue.
func epilogueCase(t kernelstest.Failer, r kernelstest.Rig, a, b ref.Array, op ops.MatMul) (*kernelstest.Launch, *addBias, []float32) {
	plain, err := r.Prepare(op, []ref.Array{a, b}, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := plain.Run(kernelstest.Serial{}); err != nil {
		t.Fatalf("%v", err)
	}
	l, err := r.Prepare(op, []ref.Array{a, b}, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	out := shape.View[float32](l.Args.Out[0])
	e := &addBias{n: l.Node.Out[0].Meta.Shape.Dim(-1), out: out, before: make([]float32, len(out)), seen: make([]int32, len(out))}
	for j := range e.n {
		e.bias = append(e.bias, float32(j)+0.5)
	}
	l.Kernel.(work.Follower).Then(e)
	return l, e, shape.View[float32](plain.Args.Out[0])
}

// TestEpilogueSeesFinalElementsOnce runs products, with and without a sum over
// K in parts, and wants each element once and final.
func TestEpilogueSeesFinalElementsOnce(t *testing.T) { rig.EachISA(t, testEpilogue) }

func testEpilogue(t *testing.T, r kernelstest.Rig) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		m, n, k, batch := s.Dim("m", 150), s.Dim("n", 700), s.Dim("k", 40), s.Dim("batch", 4)
		if s.Bool("long") {
			m, n, k = 1+m%20, 1+n%20, 1000+k*50
		}
		op := ops.MatMul{TransB: s.Bool("transB")}
		b := []int{k, n}
		if op.TransB {
			b = []int{n, k}
		}
		if s.Bool("batched b") {
			b = append([]int{batch}, b...)
		}
		l, e, want := epilogueCase(t, r, s.Normal(batch, m, k), s.Normal(b...), op)
		if err := l.Run(kernelstest.Shuffled{N: 3, Rng: rand.New(rand.NewPCG(1, 2))}); err != nil {
			t.Fatalf("%v", err)
		}
		for i, v := range want {
			if e.seen[i] != 1 || e.before[i] != v || e.out[i] != v+e.bias[i%n] {
				t.Fatalf("element %d of %v: seen %d times, was %v, is %v, want %v and a bias of %v",
					i, l.Node, e.seen[i], e.before[i], e.out[i], v, e.bias[i%n])
			}
		}
	})
}

// TestEpilogueAllocatesNothing, and goes when it is taken away.
func TestEpilogueAllocatesNothing(t *testing.T) {
	r := rig
	for _, s := range [][3]int{{100, 600, 50}, {16, 16, 5000}} {
		l, e, want := epilogueCase(t, r, kernelstest.Noise(s[0], s[2]), kernelstest.Noise(s[2], s[1]), ops.MatMul{})
		run := func() {
			if err := l.Kernel.Run(kernelstest.Serial{}, &l.Args); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(3, run); n != 0 {
			t.Errorf("%v allocates %v times", s, n)
		}
		l.Kernel.(work.Follower).Then(nil)
		run()
		for i, v := range want {
			if math.Float32bits(e.out[i]) != math.Float32bits(v) {
				t.Fatalf("%v: element %d is %v without the epilogue, want %v", s, i, e.out[i], v)
			}
		}
	}
}
