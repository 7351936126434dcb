package eager

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// whole reads whole numbers and releases them.
func (r *rig) whole(x Tensor) []int32 {
	r.t.Helper()
	d, err := x.ToHost(bg)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := x.Release(); err != nil {
		r.t.Fatal(err)
	}
	return d.Int32s()
}

func TestNonzero(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	nan, minus := float32(math.NaN()), float32(math.Copysign(0, -1))
	for name, c := range map[string]struct {
		x    Tensor
		want []int32
		dims shape.Shape
	}{
		"a matrix": {r.floats([]float32{0, 2, nan, minus, -1, 0}, 2, 3), []int32{0, 1, 0, 2, 1, 1}, shape.Of(3, 2)},
		"integers": {r.ints([]int32{0, 7, 0, -7}, 4), []int32{1, 3}, shape.Of(2, 1)},
		"zeros":    {r.floats(make([]float32, 4), 2, 2), []int32{}, shape.Of(0, 2)},
		"a scalar": {r.floats([]float32{5}), []int32{}, shape.Of(1, 0)},
		"nothing":  {r.floats(nil, 0, 3), []int32{}, shape.Of(0, 2)},
		"a result": {r.One(ops.Unary{Fn: "relu"}, r.floats([]float32{-1, 1}, 2)), []int32{1}, shape.Of(1, 1)},
	} {
		got, err := r.Nonzero(bg, c.x)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !got.Meta().Shape.Equal(c.dims) {
			t.Errorf("%s: %v", name, got.Meta())
		}
		if list := r.whole(got); !slices.Equal(list, c.want) {
			t.Errorf("%s: %v, expected %v", name, list, c.want)
		}
	}
	x := r.floats([]float32{1}, 1)
	if err := x.Release(); err != nil {
		t.Fatal(err)
	}
	got, err := r.Nonzero(bg, x)
	fails(t, err, ErrConsumed)
	fails(t, got.Err(), ErrConsumed)
	_, err = r.Nonzero(bg, r.badGather())
	fails(t, err, nil, "outside")
	_, err = r.Nonzero(bg, r.One(ops.MatMul{}, r.floats([]float32{1}, 1)))
	fails(t, err, graph.ErrShape, "contents_test.go:")
	_, err = r.Nonzero(bg, Tensor{})
	fails(t, err, errZero, "contents_test.go:")
}

func TestUnique(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	nan, minus := float32(math.NaN()), float32(math.Copysign(0, -1))
	values, index, counts, err := r.Unique(bg, r.floats([]float32{nan, 3, minus, 3, 0, nan}, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.value(values); len(got) != 3 || got[0] != 0 || math.Signbit(float64(got[0])) || got[1] != 3 || got[2] == got[2] {
		t.Errorf("the values are %v", got)
	}
	if !index.Meta().Equal(shape.I32(2, 3)) {
		t.Errorf("the index is %v", index.Meta())
	}
	if got := r.whole(index); !slices.Equal(got, []int32{2, 1, 0, 1, 0, 2}) {
		t.Errorf("the index is %v", got)
	}
	if got := r.whole(counts); !slices.Equal(got, []int32{2, 2, 2}) {
		t.Errorf("the counts are %v", got)
	}
	_, _, counts, err = r.Unique(bg, r.badGather())
	fails(t, err, nil, "outside")
	fails(t, counts.Err(), nil, "outside")
}

// NaN of any bits is one value, with the same bits whichever were there.
func TestUniqueNaN(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.FromBytes(shape.F32(4), shape.Bytes([]int32{-1, 0x7f800000, 0x7f800001, -0x400000}), "")
	values, index, counts, err := r.Unique(bg, x)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.value(values); len(got) != 2 || math.Float32bits(got[1]) != 0x7fc00000 {
		t.Errorf("the values are %x", got)
	}
	if got := r.whole(index); !slices.Equal(got, []int32{1, 0, 1, 1}) {
		t.Errorf("the index is %v", got)
	}
	if got := r.whole(counts); !slices.Equal(got, []int32{1, 3}) {
		t.Errorf("the counts are %v", got)
	}
}

// The values, gathered by the index, are the tensor.
func TestUniqueOfRandomNumbers(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	rapid.Check(t, func(t2 *rapid.T) {
		data := rapid.SliceOfN(rapid.Int32Range(-4, 4), 0, 40).Draw(t2, "data")
		values, index, counts, err := r.Unique(bg, r.ints(data, len(data)))
		if err != nil {
			t2.Fatal(err)
		}
		v, n := r.whole(values), r.whole(counts)
		if !slices.IsSorted(v) || len(slices.Compact(slices.Clone(v))) != len(v) {
			t2.Errorf("the values are %v", v)
		}
		for i, k := range r.whole(index) {
			n[k]--
			if v[k] != data[i] {
				t2.Errorf("element %d is %d, the value of its index %d", i, data[i], v[k])
			}
		}
		if slices.ContainsFunc(n, func(k int32) bool { return k != 0 }) {
			t2.Errorf("the counts are wrong by %v", n)
		}
	})
}

func TestCountsAloneAreFetched(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{0, 2, 2}, 3)
	fetched := func() (n, bytes int64) {
		for _, s := range r.tenant.Ledger().Sums() {
			if s.Reason == ledger.Fetch {
				n, bytes = n+s.Count.Count, bytes+s.Count.Bytes
			}
		}
		return n, bytes
	}
	at, err := r.Nonzero(bg, x.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if n, bytes := fetched(); n != 1 || bytes != 4 {
		t.Errorf("nonzero: %d fetches of %d bytes, expected one of 4", n, bytes)
	}
	values, index, counts, err := r.Unique(bg, x)
	if err != nil {
		t.Fatal(err)
	}
	if n, bytes := fetched(); n != 2 || bytes != 12 {
		t.Errorf("unique: %d fetches of %d bytes in all, expected two of 12", n, bytes)
	}
	r.whole(at)
	r.whole(index)
	r.whole(counts)
	r.value(values)
}
