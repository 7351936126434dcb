package cl

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// TestProductsSumInOrder multiplies matrices with tiles of all sides, and wants the bits
// of a plain loop.
func TestProductsSumInOrder(t *testing.T) {
	d, l := openAlone(t)
	var graphs []*graph.Graph
	var calls []gen.Call
	sizes := [][3]int{{70, 5, 33}, {17, 63, 100}, {3, 2, 1}, {130, 65, 16}}[:testall.Or(2, 4)]
	for i, s := range sizes {
		o := []ops.MatMul{{}, {TransB: true}, {TransA: true}, {}}[i]
		a, c := shape.F32(s[0], s[2]), shape.F32(s[2], s[1])
		if o.TransA {
			a = shape.F32(s[2], s[0])
		}
		if o.TransB {
			c = shape.F32(s[1], s[2])
		}
		b := graph.NewBuilder("product", 1)
		b.Output("z", b.One(o, b.Input("x", a), b.Input("y", c)))
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		graphs, calls = append(graphs, g), append(calls, kernelsOf(t, g)...)
	}
	if _, err := l.add(calls, nil); err != nil {
		t.Fatal(err)
	}
	for i, g := range graphs {
		in := map[*graph.Value][]byte{}
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		for _, v := range g.Inputs {
			for range v.Meta.Elems() {
				in[v] = binary.LittleEndian.AppendUint32(in[v], math.Float32bits(float32(rng.NormFloat64())))
			}
		}
		got := runGraph(t, d, g, in, false)
		if want := plainProduct(g, in, sizes[i]); !kernelstest.SameBits(got[0], want) {
			t.Errorf("%v of %v: other bits than a plain loop", graph.OpString(g.Nodes[0].Op), sizes[i])
		}
	}
}

// plainProduct adds the products of a matmul with m, n, k in ascending order of k.
func plainProduct(g *graph.Graph, in map[*graph.Value][]byte, size [3]int) (z []byte) {
	m, n, k := size[0], size[1], size[2]
	o := g.Nodes[0].Op.(ops.MatMul)
	a, b := shape.View[float32](in[g.Inputs[0]]), shape.View[float32](in[g.Inputs[1]])
	for i := range m {
		for j := range n {
			var s float32
			for l := range k {
				x, y := i*k+l, l*n+j
				if o.TransA {
					x = l*m + i
				}
				if o.TransB {
					y = j*k + l
				}
				s = float32(math.FMA(float64(a[x]), float64(b[y]), float64(s)))
			}
			z = binary.LittleEndian.AppendUint32(z, math.Float32bits(s))
		}
	}
	return z
}

// TestLongSums compares the gradient of a convolution's weights, whose sums are cut into
// parts, with its reference.
func TestLongSums(t *testing.T) {
	r := newRig(t)
	s := kernelstest.Source{Rng: rand.New(rand.NewPCG(1, 1))}
	list := []kernelstest.Sample{kernelstest.Of(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 2, Pad: 1, Groups: 2}, KH: 3, KW: 3}, 1e-4, s.Normal(9, 4, 31, 23), s.Normal(9, 6, 16, 12))}
	trials, image := r.trials(list)
	if len(trials) != 1 || len(trials[0].calls) != 2 {
		t.Fatalf("%d trials, want one of 2 kernels", len(trials))
	}
	after := r.run(trials, image, 64)
	r.ok(unwritten(trials, image, after))
	r.ok(trials[0].check(after))
}
