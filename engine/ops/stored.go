package ops

import (
	"encoding/binary"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// NarrowBF16 stores each number of src as bfloat16, rounded as [RoundBF16] says: within a
// relative 2^-8 of numbers from 2^-126 up. dst has as many elements.
func NarrowBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = uint16(math.Float32bits(RoundBF16(x)) >> 16)
	}
}

// NarrowInt8 stores a row of numbers as [shape.Int8Block], symmetrically, as "8-bit
// Optimizers via Block-wise Quantization" (Dettmers et al., 2022) does by larger blocks. dst has
// [shape.BlocksBytes] of the row. It reports whether all numbers are finite; dst is of no
// use otherwise.
//
// The scale is the block's largest magnitude/127, rounded to bfloat16. An element is x/scale,
// rounded to the nearest integer, half-way to the even one: at most 127. Its number differs
// from x by at most scale/2, which is less than 1/253 of the largest magnitude. A block
// whose scale would be below 2^-126, with numbers below 1.5e-36, is zeros.
//
// Numbers that were stored so before stay as they are: the largest is 127 scales, exactly.
func NarrowInt8(dst []byte, src []float32) (finite bool) {
	for len(src) > 0 {
		n := min(len(src), shape.BlockElems)
		if !narrowBlock(dst[:2+n], src[:n]) {
			return false
		}
		dst, src = dst[2+n:], src[n:]
	}
	return true
}

func narrowBlock(dst []byte, src []float32) (finite bool) {
	const infinity, least = 0x7f800000, 1.0 / (1 << 126) // below the least scale, products were denormal
	most := uint32(0)
	for _, x := range src {
		most = max(most, math.Float32bits(x)&^(1<<31))
	}
	if most >= infinity {
		return false
	}
	scale := RoundBF16(math.Float32frombits(most) / 127)
	if scale < least {
		clear(dst)
		return true
	}
	binary.LittleEndian.PutUint16(dst, uint16(math.Float32bits(scale)>>16))
	for i, x := range src {
		// As float32, some quotients would be rounded to half-way between two integers first.
		dst[2+i] = byte(int8(math.RoundToEven(float64(x) / float64(scale))))
	}
	return true
}

// WidenInt8 is the numbers of a row that [NarrowInt8] stored, as many as dst has elements.
// They are exact: an element has 7 bits and a scale 8.
func WidenInt8(dst []float32, src []byte) {
	for len(dst) > 0 {
		n := min(len(dst), shape.BlockElems)
		scale := math.Float32frombits(uint32(binary.LittleEndian.Uint16(src)) << 16)
		for i, q := range src[2 : 2+n] {
			dst[i] = float32(int8(q)) * scale
		}
		dst, src = dst[n:], src[2+n:]
	}
}

// Widen is the numbers of a tensor that is stored as m says: see [shape.DType.Stored].
func Widen(m shape.Meta, dst []float32, src []byte) {
	if m.DType == shape.BFloat16 {
		for i, x := range shape.View[uint16](src)[:len(dst)] {
			dst[i] = math.Float32frombits(uint32(x) << 16)
		}
		return
	}
	for _, width := m.Rows(); len(dst) > 0; dst, src = dst[width:], src[shape.BlocksBytes(width):] {
		WidenInt8(dst[:width], src)
	}
}

// again is x, for a backward pass. Where x is widened from how it is stored, it is widened
// once more: the first one would take memory from the forward pass on.
func again(b *graph.Builder, x *graph.Value) *graph.Value {
	if x.Node == nil {
		return x
	}
	if o, ok := x.Node.Op.(Cast); ok && x.Node.In[0].Meta.DType.Stored() {
		return b.One(o, x.Node.In[0])
	}
	return x
}
