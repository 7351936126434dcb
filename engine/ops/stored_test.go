package ops_test

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// drawStored is a row whose blocks have any size, with zeros and with numbers half-way between two
// multiples of a scale.
func drawStored(t *rapid.T) []float32 {
	x := make([]float32, rapid.IntRange(0, 100).Draw(t, "width"))
	for at := 0; at < len(x); at += shape.BlockElems {
		block := x[at:min(len(x), at+shape.BlockElems)]
		unit := math.Ldexp(1, rapid.IntRange(-149, 120).Draw(t, "exponent"))
		halves := rapid.Bool().Draw(t, "halves")
		for i := range block {
			if halves {
				block[i] = float32(unit * float64(rapid.IntRange(-254, 254).Draw(t, "half")) / 2)
			} else {
				block[i] = float32(unit * rapid.Float64Range(-127, 127).Draw(t, "x"))
			}
		}
		if halves {
			block[0] = float32(127 * unit)
		}
	}
	return x
}

// TestNarrowInt8: an element is the nearest multiple of the scale, the even one of two, within 1/253 of the
// block's largest. Numbers that were stored stay as they are.
func TestNarrowInt8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawStored(t)
		stored := make([]byte, shape.I8Block(len(x)).Bytes())
		if !ops.NarrowInt8(stored, x) {
			t.Fatalf("%v are not finite", x)
		}
		y := make([]float32, len(x))
		ops.WidenInt8(y, stored)
		for at := 0; at < len(x); at += shape.BlockElems {
			block := x[at:min(len(x), at+shape.BlockElems)]
			most := 0.0
			for _, v := range block {
				most = max(most, math.Abs(float64(v)))
			}
			code := stored[at/shape.BlockElems*shape.BlockBytes:]
			scale := float64(math.Float32frombits(uint32(code[0])<<16 | uint32(code[1])<<24))
			if tiny := most < 127*0x1p-126*(1-0x1p-9); tiny != (scale == 0) && math.Abs(most/(127*0x1p-126)-1) > 0x1p-8 {
				t.Fatalf("the scale of %v is %v", most, scale)
			} else if scale == 0 {
				for i := range block {
					if y[at+i] != 0 {
						t.Fatalf("%v is stored as %v", block[i], y[at+i])
					}
				}
				continue
			}
			if math.Abs(scale*127/most-1) > 0x1p-8 {
				t.Fatalf("the scale of %v is %v", most, scale)
			}
			for i, v := range block {
				got, want := float64(y[at+i]), math.RoundToEven(float64(v)/scale)*scale
				if gap := math.Abs(float64(v) - got); got != want || gap > scale/2 || gap >= most/253 {
					t.Fatalf("%v is stored as %v, expected %v of a scale of %v", v, got, want, scale)
				}
			}
		}
		again := make([]byte, len(stored))
		if !ops.NarrowInt8(again, y) || !bytes.Equal(again, stored) {
			t.Fatalf("%v, stored, are % x, and once more % x", x, stored, again)
		}
		all := make([]float32, 2*len(x))
		ops.Widen(shape.I8Block(2, len(x)), all, append(stored, stored...))
		for i, v := range all {
			if v != y[i%len(x)] {
				t.Fatalf("number %d of two rows is %v, expected %v", i, v, y[i%len(x)])
			}
		}
	})
}

// Every scale is exact: the largest number of its block is 127 of it, up to the largest finite one.
func TestNarrowInt8Scales(t *testing.T) {
	for bits := uint32(0); bits < 1<<15; bits++ {
		largest := 127 * math.Float32frombits(bits<<16)
		if largest-largest != 0 {
			if ops.NarrowInt8(make([]byte, 3), []float32{largest}) {
				t.Fatalf("%v can be stored", largest)
			}
			continue
		}
		for _, x := range []float32{largest, math.Nextafter32(largest, math.MaxFloat32)} {
			var code [3]byte
			want := bits
			if bits < 1<<7 { // denormal
				want = 0
			}
			ok := ops.NarrowInt8(code[:], []float32{x})
			if got := uint32(code[0]) | uint32(code[1])<<8; !ok || got != want || want > 0 && code[2] != 127 {
				t.Fatalf("the scale of %v is %04x, expected %04x", x, got, want)
			}
		}
	}
	var y [1]float32
	var code [3]byte
	if ok := ops.NarrowInt8(code[:], []float32{-math.MaxFloat32}); !ok {
		t.Fatal("the largest number cannot be stored")
	}
	if ops.WidenInt8(y[:], code[:]); !(math.Abs(float64(y[0])/math.MaxFloat32+1) < 0x1p-8) {
		t.Errorf("the largest number is stored as %v", y[0])
	}
}
