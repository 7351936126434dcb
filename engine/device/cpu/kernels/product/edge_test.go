package product

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// cliff is memory that ends where a page begins that nobody may touch: reading
// one byte too far ends the test.
type cliff struct{ mem []byte }

func newCliff(t *testing.T, floats int) *cliff {
	t.Helper()
	mem, unmap, err := mapCliff(floats * 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmap(); err != nil {
			t.Error(err)
		}
	})
	return &cliff{mem}
}

// floats are the last n elements.
func (c *cliff) floats(n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&c.mem[len(c.mem)-4*n])), n)
}

// TestNothingIsReadBeyondOperands puts the operands at the edge of the memory
// that may be touched.
func TestNothingIsReadBeyondOperands(t *testing.T) { rig.EachISA(t, testEdges) }

func testEdges(t *testing.T, r kernelstest.Rig) {
	const far, most = 512, 1100
	rng := rand.New(rand.NewPCG(5, 6))
	a, b, c := newCliff(t, 40*most), newCliff(t, most*most), newCliff(t, 40*most)
	for round := range 200 {
		formats := formatsOf(r.On)
		m, n, k := 1+rng.IntN(40), 1+rng.IntN(70), 1+rng.IntN(60)
		if round%10 == 0 {
			n, k = most, 1+rng.IntN(most)
		}
		g := gemm{isa: r.On.ISA, k: k, ldc: n, c: c.floats(m * n), a: operand{a.floats(m * k), k, 1}, b: operand{b.floats(k * n), n, 1}, format: formats[round%len(formats)]}
		if round%2 == 1 {
			g.a.rs, g.a.cs = 1, m
		}
		if round%4 > 1 {
			g.b.rs, g.b.cs = 1, k
		}
		t.Logf("%dx%dx%d, strides %d,%d and %d,%d", m, n, k, g.a.rs, g.a.cs, g.b.rs, g.b.cs)
		g.do(0, m, 0, n)
	}
	// Transposed and far apart, so that panels are gathered.
	for _, rows := range []int{1, 5, 6, 7, 8, 13} {
		g := gemm{isa: r.On.ISA, k: 33, ldc: 20, c: c.floats(rows * 20), b: operand{b.floats(33 * 20), 20, 1}}
		g.a = operand{a.floats(32*far + rows), 1, far}
		t.Log(fmt.Sprint(rows, " rows, gathered"))
		g.do(0, rows, 0, 20)
	}
}

// TestNothingIsReadBeyondSingleRows does so with products of one row.
func TestNothingIsReadBeyondSingleRows(t *testing.T) { rig.EachISA(t, testSingleEdges) }

func testSingleEdges(t *testing.T, r kernelstest.Rig) {
	const most = 1100
	rng := rand.New(rand.NewPCG(7, 8))
	a, b, c := newCliff(t, most), newCliff(t, most*most), newCliff(t, most)
	for round := range 200 {
		n, k := 1+rng.IntN(150), 1+rng.IntN(60)
		if round%10 == 0 {
			n, k = most, 1+rng.IntN(most)
		}
		g := gemm{isa: r.On.ISA, k: k, ldc: n, c: c.floats(n), a: operand{a.floats(k), k, 1}, b: operand{b.floats(k * n), n, 1}}
		if round%4 > 1 {
			g.b.rs, g.b.cs = 1, k
		}
		if r.On.ISA == isa.Generic != !g.isSingle(1, 1) {
			t.Fatalf("%v: 1x%dx%d", r.On.ISA, n, k)
		}
		if g.isSingle(1, 1) {
			t.Logf("1x%dx%d, strides %d,%d", n, k, g.b.rs, g.b.cs)
			g.doSingle(0, n)
		}
	}
}

// TestNothingIsReadBeyondFewRows does so with products of a few rows.
func TestNothingIsReadBeyondFewRows(t *testing.T) { rig.EachISA(t, testFewEdges) }

func testFewEdges(t *testing.T, r kernelstest.Rig) {
	const most = 1100
	rng := rand.New(rand.NewPCG(9, 10))
	a, b, c := newCliff(t, mostFew*most), newCliff(t, most*most), newCliff(t, mostFew*most)
	for round := range 200 {
		m, n, k := 2+rng.IntN(mostFew-1), 1+rng.IntN(150), 2+rng.IntN(60)
		if round%10 == 0 {
			n, k = most, 2+rng.IntN(most-1)
		}
		g := gemm{isa: r.On.ISA, k: k, ldc: n, c: c.floats(m * n), a: operand{a.floats(m * k), k, 1}, b: operand{b.floats(k * n), 1, k}}
		t.Logf("%dx%dx%d", m, n, k)
		if r.On.ISA >= isa.AVX512 != g.isFew(m, m) {
			t.Fatalf("%v: few: %v", r.On.ISA, g.isFew(m, m))
		}
		if g.isFew(m, m) {
			g.doFew(m, 0, n)
			continue
		}
		g.b.rs, g.b.cs = n, 1 // read where it lies, too
		g.do(0, m, 0, n)
	}
}

// TestNothingIsReadBeyondImages does so with the operands of convolutions.
func TestNothingIsReadBeyondImages(t *testing.T) {
	rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
		const most = 1 << 17
		in := [2]*cliff{newCliff(t, most), newCliff(t, most)}
		rng := rand.New(rand.NewPCG(7, 8))
		for round := range 90 {
			k := convolution{n: 2, c: 1 + rng.IntN(70), o: 1 + rng.IntN(70), h: 3 + rng.IntN(12), w: 3 + rng.IntN(20), kh: 1 + rng.IntN(3), kw: 1 + rng.IntN(3), stride: 1 + rng.IntN(2), pad: rng.IntN(2), groups: 1, bf16: rng.IntN(3) == 0}
			switch round % 3 {
			case 0: // each channel alone
				k.kh, k.kw, k.o, k.groups = 3, 3, k.c, k.c
			case 1:
				k.kh, k.kw, k.pad = 1, 1, 0
			}
			x, w, dy := k.shapes()
			for _, which := range convOps {
				op, args := k.op(which, ref.New(shape.F32(x...)), ref.New(shape.F32(w...)), ref.New(shape.F32(dy...)))
				l, err := r.Prepare(op, args, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, mem := range l.Args.In {
					l.Args.In[i] = in[i].mem[len(in[i].mem)-len(mem):]
				}
				t.Logf("%s of %+v", which, k)
				if err := l.Run(kernelstest.Serial{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
