package eager

import (
	"math"
	"reflect"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Ops that differ only in the sign of a zero are two ops.
func TestZerosOfBothSigns(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	for range 2 { // made, and found again
		r.expect(r.One(ops.Affine{Scale: 1, Shift: 2}, r.floats([]float32{1}, 1)), 3)
		for _, scale := range []float64{0, math.Copysign(0, -1)} {
			got := r.value(r.One(ops.Affine{Scale: scale}, r.floats([]float32{1}, 1)))
			if zero := float32(scale)*1 + 0; got[0] != zero {
				t.Errorf("1 * %v is %v", scale, got)
			}
		}
	}
	if n := len(r.lanes[0].cache.entries); n != 3 {
		t.Errorf("%d entries for 3 ops", n)
	}
}

func TestQuickKeys(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	for range 3 {
		for _, op := range []graph.Op{ops.Unary{Fn: "neg"}, ops.Unary{Fn: "abs"}} {
			r.value(r.One(op, r.floats([]float32{1, 2}, 2)))
			r.value(r.One(op, r.floats([]float32{1, 2}, 1, 2)))
		}
	}
	if c := &r.lanes[0].cache; len(c.quick) != 4 || len(c.entries) != 4 {
		t.Errorf("%d quick keys and %d entries for 4 calls", len(c.quick), len(c.entries))
	}
	for op, want := range map[graph.Op]bool{ops.MatMul{}: true, ops.Affine{}: true, graph.Op(Freeze(ops.Affine{})): true, graph.Compose(nil): false, ops.Binary{}: true} {
		if attrsOf(reflect.TypeOf(op), op).plain != want {
			t.Errorf("%T is plain: %v", op, !want)
		}
	}
	if isPlain(reflect.TypeOf(ops.Reshape{})) {
		t.Error("a list is plain")
	}
}

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
