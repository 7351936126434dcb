package eager

import (
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// TestMetadataIsPartOfTheKey calls one op with many shapes, types and numbers
// of inputs.
func TestMetadataIsPartOfTheKey(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	for range 2 {
		for n := 1; n < 5; n++ {
			data := []float32{1, 2, 3, 4}[:n]
			r.expect(r.One(ops.SumSquares{}, r.floats(data, n)), []float32{1, 5, 14, 30}[n-1])
			parts := make([]Tensor, 2*n)
			for i := range parts {
				parts[i] = r.floats([]float32{float32(i)}, 1)
			}
			r.expect(r.One(ops.Concat{}, parts...), []float32{0, 1, 2, 3, 4, 5, 6, 7}[:2*n]...)
		}
	}
	// Metadata that differ in the type alone, and in the rank alone.
	fails(t, r.One(ops.SumSquares{}, r.ints([]int32{1, 2}, 2)).Err(), graph.ErrShape)
	x := r.One(ops.Unary{Fn: "neg"}, r.floats([]float32{1, 2}, 1, 2))
	if !x.Meta().Equal(shape.F32(1, 2)) {
		t.Error(x.Meta())
	}
	r.expect(x, -1, -2)
	r.expect(r.One(ops.Unary{Fn: "neg"}, r.floats([]float32{1, 2}, 2)), -1, -2)
}

func TestAttributesAreCachedByPrint(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	for range 3 {
		for _, scale := range []float64{2, 3} {
			r.expect(r.One(ops.Affine{Scale: scale}, x.Ref()), float32(scale), float32(2*scale))
		}
	}
	r.expect(r.One(ops.Affine{Scale: 2}, x), 2, 4)
	if s := r.devs[0].Stats(); s.CompileMisses != 3 || s.CompileHits != 0 {
		t.Errorf("%d compilations, %d found: expected one per attribute, and one that donates", s.CompileMisses, s.CompileHits)
	}
}
