package hosttensor_test

import (
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shape.Shape(rapid.SliceOfN(rapid.IntRange(0, 5), 1, 3).Draw(t, "shape"))
		d := rapid.SampledFrom([]shape.DType{shape.Float32, shape.Float64, shape.Int32, shape.Int64, shape.Uint8}).Draw(t, "type")
		want := shape.Meta{DType: d, Shape: s}
		dense, err := hosttensor.New(want)
		if err != nil {
			t.Fatal(err)
		}
		got, b, err := hosttensor.Bytes(dense)
		if err != nil || !got.Equal(want) || int64(len(b)) != want.Bytes() || dense.Len() != s.Elems() {
			t.Fatalf("%v comes back as %v with %d bytes, %v", want, got, len(b), err)
		}
	})
}

func TestBytesSeesTheBytesThemselves(t *testing.T) {
	dense := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 2, 3, 4}))
	_, b, err := hosttensor.Bytes(dense)
	if err != nil {
		t.Fatal(err)
	}
	shape.View[float32](b)[3] = 9
	if got := dense.Data().([]float32)[3]; got != 9 {
		t.Errorf("a write through the bytes left %v", got)
	}
}

func TestBytesRefusesWhatIsNotContiguousGoMemory(t *testing.T) {
	m := tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(make([]float32, 12)))
	column, err := m.Slice(nil, tensor.S(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*tensor.Dense{
		"nil": nil, "a column": column.(*tensor.Dense),
		"strings": tensor.New(tensor.WithShape(2), tensor.WithBacking([]string{"a", "b"})),
	} {
		if _, _, err := hosttensor.Bytes(d); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, m := range []shape.Meta{{DType: shape.Invalid, Shape: shape.Of(1)}, shape.F32(-1)} {
		if _, err := hosttensor.New(m); err == nil {
			t.Errorf("%v is accepted", m)
		}
	}
}

// Over makes a tensor over memory, and Point moves one to other memory: writes show.
func TestOverAndPoint(t *testing.T) {
	memory := make([]int64, 8)
	b := shape.Bytes(memory)
	for _, m := range []shape.Meta{shape.F32(2, 3), shape.I32(), shape.I32(4), {DType: shape.Float64, Shape: shape.Of(3)}, {DType: shape.Uint8, Shape: shape.Of(5)}, {DType: shape.Int64, Shape: shape.Of(1, 2)}} {
		d, err := hosttensor.Over(m, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, own, err := hosttensor.Bytes(d); err != nil || int64(len(own)) != m.Bytes() || &own[0] != &b[0] || !hosttensor.At(d, m.Shape, b[:m.Bytes()]) {
			t.Errorf("%v: %d bytes, %v", m, len(own), err)
		}
		other := make([]byte, m.Bytes())
		hosttensor.Point(d, other)
		if hosttensor.At(d, m.Shape, b[:m.Bytes()]) || !hosttensor.At(d, m.Shape, other) {
			t.Errorf("%v: it is not at the other memory", m)
		}
		if d.Shape()[0]++; hosttensor.At(d, m.Shape, other) {
			t.Errorf("%v: another shape is not seen", m)
		}
	}
	scalar := tensor.New(tensor.FromScalar(float32(2)))
	if m, own, err := hosttensor.Bytes(scalar); err != nil || len(own) != 4 || m.Shape.Rank() != 0 {
		t.Errorf("a scalar: %v, %d bytes, %v", m, len(own), err)
	}
	if _, err := hosttensor.Over(shape.Meta{}, nil); err == nil {
		t.Error("no type is accepted")
	}
}
