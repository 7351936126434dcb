package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

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
func epilogueCase(t failer, a, b ref.Array, op ops.MatMul) (*launch, *addBias, []float32) {
	plain, err := prepare(op, []ref.Array{a, b}, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := plain.run(serial{}); err != nil {
		t.Fatalf("%v", err)
	}
	l, err := prepare(op, []ref.Array{a, b}, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	out := shape.View[float32](l.args.Out[0])
	e := &addBias{n: l.node.Out[0].Meta.Shape.Dim(-1), out: out, before: make([]float32, len(out)), seen: make([]int32, len(out))}
	for j := range e.n {
		e.bias = append(e.bias, float32(j)+0.5)
	}
	l.kernel.(Follower).Then(e)
	return l, e, shape.View[float32](plain.args.Out[0])
}

// TestEpilogueSeesFinalElementsOnce runs products, with and without a sum over
// K in parts, and wants each element once and final.
func TestEpilogueSeesFinalElementsOnce(t *testing.T) { atLevels(t, testEpilogue) }

func testEpilogue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		m, n, k, batch := s.dim("m", 150), s.dim("n", 700), s.dim("k", 40), s.dim("batch", 4)
		if s.bool("long") {
			m, n, k = 1+m%20, 1+n%20, 1000+k*50
		}
		op := ops.MatMul{TransB: s.bool("transB")}
		b := []int{k, n}
		if op.TransB {
			b = []int{n, k}
		}
		if s.bool("batched b") {
			b = append([]int{batch}, b...)
		}
		l, e, want := epilogueCase(t, s.normal(batch, m, k), s.normal(b...), op)
		if err := l.run(shuffled{3, rand.New(rand.NewPCG(1, 2))}); err != nil {
			t.Fatalf("%v", err)
		}
		for i, v := range want {
			if e.seen[i] != 1 || e.before[i] != v || e.out[i] != v+e.bias[i%n] {
				t.Fatalf("element %d of %v: seen %d times, was %v, is %v, want %v and a bias of %v",
					i, l.node, e.seen[i], e.before[i], e.out[i], v, e.bias[i%n])
			}
		}
	})
}

// TestEpilogueAllocatesNothing, and goes when it is taken away.
func TestEpilogueAllocatesNothing(t *testing.T) {
	for _, s := range [][3]int{{100, 600, 50}, {16, 16, 5000}} {
		l, e, want := epilogueCase(t, noise(s[0], s[2]), noise(s[2], s[1]), ops.MatMul{})
		run := func() {
			if err := l.kernel.Run(serial{}, &l.args); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(3, run); n != 0 {
			t.Errorf("%v allocates %v times", s, n)
		}
		l.kernel.(Follower).Then(nil)
		run()
		for i, v := range want {
			if math.Float32bits(e.out[i]) != math.Float32bits(v) {
				t.Fatalf("%v: element %d is %v without the epilogue, want %v", s, i, e.out[i], v)
			}
		}
	}
}
