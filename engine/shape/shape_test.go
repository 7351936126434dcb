package shape_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/shape"
)

func ExampleMeta() {
	m := shape.F32(64, 128)
	fmt.Println(m, m.Elems(), m.Bytes())
	// Output: f32[64,128] 8192 32768
}

func dims(t *rapid.T, name string) shape.Shape {
	return shape.Shape(rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, name))
}

func TestStridesAddressEveryElementOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := dims(t, "shape")
		seen := make([]int, s.Elems())
		index := make([]int, s.Rank())
		for range seen {
			at := 0
			for i, stride := range s.Strides() {
				at += index[i] * stride
			}
			seen[at]++
			for i := s.Rank() - 1; i >= 0; i-- {
				if index[i]++; index[i] < s[i] {
					break
				}
				index[i] = 0
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("element %d of %v is addressed %d times", i, s, n)
			}
		}
	})
}

func TestBroadcast(t *testing.T) {
	for _, c := range []struct{ a, b, want shape.Shape }{
		{shape.Of(2, 3), shape.Of(3), shape.Of(2, 3)},
		{shape.Of(4, 1), shape.Of(1, 5), shape.Of(4, 5)},
		{shape.Of(), shape.Of(7), shape.Of(7)},
		{shape.Of(0, 3), shape.Of(1, 3), shape.Of(0, 3)},
	} {
		for _, pair := range [][2]shape.Shape{{c.a, c.b}, {c.b, c.a}} {
			if got, err := shape.Broadcast(pair[0], pair[1]); err != nil || !got.Equal(c.want) {
				t.Errorf("Broadcast(%v, %v) = %v, %v, want %v", pair[0], pair[1], got, err, c.want)
			}
		}
	}
	if _, err := shape.Broadcast(shape.Of(2, 3), shape.Of(2)); err == nil {
		t.Error("shapes [2,3] and [2] broadcast")
	}
}

func TestValidateRefusesWhatDoesNotFit(t *testing.T) {
	for _, s := range []shape.Shape{shape.Of(-1), shape.Of(3, -2), shape.Of(math.MaxInt32, math.MaxInt32, 64)} {
		if s.Validate() == nil {
			t.Errorf("%v is accepted", s)
		}
	}
	if err := shape.Of(0, 5).Validate(); err != nil {
		t.Error(err)
	}
}

// TestBlocks: a row of int8 has a scale of two bytes for each 32 elements begun.
func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		m    shape.Meta
		want int64
	}{
		{shape.I8Block(), 3}, {shape.I8Block(0), 0}, {shape.I8Block(4, 0), 0}, {shape.I8Block(0, 7), 0}, {shape.I8Block(1), 3},
		{shape.I8Block(5, 32), 5 * 34}, {shape.I8Block(5, 33), 5 * 37}, {shape.I8Block(2, 3, 64), 6 * 68}, {shape.BF16(3, 5), 30},
	} {
		if got := c.m.Bytes(); got != c.want {
			t.Errorf("%v takes %d bytes, expected %d", c.m, got, c.want)
		}
	}
}
