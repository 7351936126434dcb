package shape_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func ExampleSummary() {
	fmt.Println(shape.Summary(shape.F32(2, 4), shape.Bytes([]float32{0.5, 1, 2, 3, 4, 5, -6.25, 0})))
	// Output: [0.5 1 2 … 5 -6.25 0], least -6.25, largest 5, mean 1.15625
}

func TestSummary(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		m    shape.Meta
		b    []byte
		want string
	}{
		{shape.F32(), shape.Bytes([]float32{3}), "[3], least 3, largest 3, mean 3"},
		{shape.F32(0, 3), nil, "[]"},
		{shape.F32(4), shape.Bytes([]float32{nan, 1, -inf, inf}), "[NaN 1 -Inf +Inf], least 1, largest 1, mean 1, 1 NaN, 2 Inf"},
		{shape.F32(2), shape.Bytes([]float32{nan, nan}), "[NaN NaN], 2 NaN"},
		{shape.F32(3), shape.Bytes([]float32{1e-7, 16777216, 1.0 / 3}), "[1e-07 16777216 0.333333], least 1e-07, largest 16777216, mean 5.59241e+06"},
		{shape.I32(7), shape.Bytes([]int32{1, 2, 3, 4, 5, 6, -2147483648}), "[1 2 3 … 5 6 -2147483648], least -2147483648, largest 6, mean -3.06783e+08"},
		{shape.Meta{DType: shape.Float64, Shape: shape.Of(1)}, shape.Bytes([]float64{0.25}), "[0.25], least 0.25, largest 0.25, mean 0.25"},
		{shape.Meta{DType: shape.Int64, Shape: shape.Of(1)}, shape.Bytes([]int64{-5}), "[-5], least -5, largest -5, mean -5"},
		{shape.Meta{DType: shape.Uint8, Shape: shape.Of(2)}, []byte{0, 255}, "[0 255], least 0, largest 255, mean 127.5"},
		{shape.BF16(2), shape.Bytes([]uint16{0x3f80, 0xc000}), "[1 -2], least -2, largest 1, mean -0.5"},
		{shape.I8Block(2, 2), []byte{0x80, 0x3f, 1, 0xff, 0, 0x40, 3, 127}, "[1 -1 6 254], least -1, largest 254, mean 65"},
	} {
		if got := shape.Summary(c.m, c.b); got != c.want {
			t.Errorf("%v is %q, want %q", c.m, got, c.want)
		}
	}
}
