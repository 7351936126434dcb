package kernels

import (
	"bytes"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// TestRangedUpdatesAreThoseOfTheWhole compares the bits of updates range by range with
// those of all elements at once.
func TestRangedUpdatesAreThoseOfTheWhole(t *testing.T) { rig.EachISA(t, testRangedUpdates) }

func testRangedUpdates(t *testing.T, r kernelstest.Rig) {
	const n = 2*ops.SumElems + 76
	noise := kernelstest.Noise(n)
	f := func() ref.Array { return ref.Floats(slices.Clone(noise.F), n/4, 4) }
	positive := f()
	for i, x := range positive.F {
		positive.F[i] = x * x
	}
	for name, c := range map[string]struct {
		op graph.Op
		in []ref.Array
	}{
		"sgd":      {ops.SGD{Scale: 0.5, WeightDecay: 0.1}, []ref.Array{f(), f(), ref.Floats([]float64{0.1})}},
		"momentum": {ops.SGD{Scale: 0.5, Momentum: 0.9, Clip: true}, []ref.Array{f(), f(), ref.Floats([]float64{0.1}), f(), ref.Floats([]float64{0.3})}},
		"nesterov": {ops.SGD{Scale: 0.5, Momentum: 0.9, Nesterov: true}, []ref.Array{f(), f(), ref.Floats([]float64{0.1}), f()}},
		"adam":     {ops.Adam{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Scale: 1}, []ref.Array{f(), f(), f(), positive, ref.Ints([]int32{3}), ref.Floats([]float64{0.1})}},
		"adamw": {ops.Adam{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Scale: 1, WeightDecay: 0.1, Decoupled: true, Clip: true},
			[]ref.Array{f(), f(), f(), positive, ref.Ints([]int32{3}), ref.Floats([]float64{0.1}), ref.Floats([]float64{0.3})}},
		"lion": {ops.Lion{Beta1: 0.9, Beta2: 0.99, WeightDecay: 0.1, Scale: 0.5, Clip: true}, []ref.Array{f(), f(), f(), ref.Floats([]float64{0.1}), ref.Floats([]float64{0.3})}},
	} {
		whole := r.Run(t, kernelstest.Of(c.op, 0, c.in...), nil, kernelstest.Serial{})
		alias := c.op.(graph.Aliaser).Alias()
		got := make([][]byte, len(alias))
		var apart []byte
		in := slices.Clone(c.in)
		for from := 0; from < n; from += ops.SumElems {
			o := ops.Ranged{Op: c.op, From: from, Count: min(ops.SumElems, n-from)}
			for _, i := range alias[1:] {
				in[i] = ref.Floats(c.in[i].F[from:][:o.Count], o.Count)
			}
			l := r.Run(t, kernelstest.Of(o, 0, in...), nil, kernelstest.Serial{})
			for k := range alias {
				part := l.Out[k].Mem
				if o.Cuts(l.Node.Out[k].Meta) {
					part = part[4*from:][:4*o.Count]
				}
				got[k] = append(got[k], part...)
			}
			o.Apart = true
			apart = append(apart, r.Run(t, kernelstest.Of(o, 0, in...), nil, kernelstest.Serial{}).Out[0].Mem...)
		}
		if !bytes.Equal(apart, whole.Out[0].Mem) {
			t.Errorf("%s: weights in ranges apart have other bits", name)
		}
		for k := range alias {
			if !bytes.Equal(got[k], whole.Out[k].Mem) {
				t.Errorf("%s: output %d of ranges has other bits", name, k)
			}
		}
	}
}

// TestSquaresOfRangesAreThoseOfTheWhole compares the bits of a sum of squares with
// those of the sum over ranges.
func TestSquaresOfRangesAreThoseOfTheWhole(t *testing.T) {
	rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
		const n = 3*ops.SumElems + 76
		x := kernelstest.Noise(n).F
		var parts []ref.Array
		for _, cut := range [][2]int{{0, 2 * ops.SumElems}, {2 * ops.SumElems, 3 * ops.SumElems}, {3 * ops.SumElems, n}} {
			l := r.Run(t, kernelstest.Of(ops.SquareParts{}, 0, ref.Floats(x[cut[0]:cut[1]], cut[1]-cut[0])), nil, kernelstest.Serial{})
			sums := shape.View[int32](l.Out[0].Mem)
			parts = append(parts, ref.Ints(sums, len(sums)/2, 2))
		}
		whole := r.Run(t, kernelstest.Of(ops.SumSquares{}, 0, ref.Floats(x, n/4, 4)), nil, kernelstest.Serial{})
		got := r.Run(t, kernelstest.Of(ops.SquareTotal{}, 0, parts...), nil, kernelstest.Serial{})
		if !bytes.Equal(got.Out[0].Mem, whole.Out[0].Mem) {
			t.Errorf("%x, of the whole %x", got.Out[0].Mem, whole.Out[0].Mem)
		}
	})
}
