package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// Fill writes a variable's first contents over all of dst, which has
// v.Meta.Bytes() bytes. Random fills depend on the seed and the variable's name
// alone. A range that is filled at random is a BUG, unless it is of an average: its numbers
// are those of the whole variable. An average has the contents of its parameter.
func Fill(v *graph.Value, seed uint64, dst []byte) { _ = FillUntil(v, seed, dst, nil) }

// pieceElems is the elements that FillUntil draws before it asks stop again: some 10 ms.
const pieceElems = 1 << 20

// FillUntil is Fill, but ends with the error of stop, which it asks now and then. nil
// never stops it.
func FillUntil(v *graph.Value, seed uint64, dst []byte, stop func() error) error {
	if int64(len(dst)) != v.Meta.Bytes() {
		panic(fmt.Sprintf("BUG: %v is filled from %d bytes", v, len(dst)))
	}
	if v.Meta.DType != shape.Float32 && !v.Meta.DType.Stored() {
		clear(dst)
		return nil
	}
	name, from := v.Name, 0
	if parameter := v.Averaged(); parameter != "" {
		name = parameter
		if v.Range != nil {
			from = v.Range.From
		}
	} else if v.Range != nil && v.Init.Kind != graph.Zeros && v.Init.Kind != graph.Constant {
		panic(fmt.Sprintf("BUG: %v is filled at random, and is a range", v))
	}
	key := rng.Named(seed, name)
	fill := func(f []float32, at int) error {
		if stop != nil {
			if err := stop(); err != nil {
				return err
			}
		}
		fillPiece(f, v.Init, key, from+at)
		return nil
	}
	if v.Meta.DType.Stored() {
		return Narrowed(v.Meta, dst, fill)
	}
	f := shape.View[float32](dst)
	for at := 0; at < len(f); at += pieceElems {
		if err := fill(f[at:min(len(f), at+pieceElems)], at); err != nil {
			return err
		}
	}
	return nil
}

// Narrowed fills dst with numbers as m stores them, rounded as [ops.NarrowBF16] or
// [ops.NarrowInt8] says: those that are stored so already stay as they are. read fills a piece
// of them, of which at is the first one's index, a multiple of 4. It fails with read's error,
// or where a number is not finite, or would not stay so.
func Narrowed(m shape.Meta, dst []byte, read func(piece []float32, at int) error) error {
	n, step := m.Elems(), pieceElems
	_, width := m.Rows()
	if m.DType == shape.Int8Block {
		step = max(1, pieceElems/4/max(1, width)) * 4 * width // whole rows
	}
	buffer := make([]float32, min(n, step))
	for at := 0; at < n; at += step {
		piece := buffer[:min(n-at, step)]
		if err := read(piece, at); err != nil {
			return err
		}
		if m.DType == shape.Int8Block {
			if i := narrowRows(dst, piece, width); i >= 0 {
				return fmt.Errorf("element %d is %v, which int8 cannot hold", at+i, piece[i])
			}
			dst = dst[len(piece)/width*shape.BlocksBytes(width):]
			continue
		}
		half := shape.View[uint16](dst)[at : at+len(piece)]
		ops.NarrowBF16(half, piece)
		const exponent = 0x7f80 // all of it is that of infinity and NaN
		if i := slices.IndexFunc(half, func(w uint16) bool { return w&exponent == exponent }); i >= 0 {
			return fmt.Errorf("element %d is %v, which bfloat16 cannot hold", at+i, piece[i])
		}
	}
	return nil
}

// narrowRows is ops.NarrowInt8 for rows of that width. It returns the index of the first
// number that is not finite, or -1.
func narrowRows(dst []byte, x []float32, width int) int {
	pitch := shape.BlocksBytes(width)
	for row := range len(x) / width {
		if !ops.NarrowInt8(dst[row*pitch:], x[row*width:][:width]) {
			return slices.IndexFunc(x, func(v float32) bool { return v-v != 0 })
		}
	}
	return -1
}

// fillPiece fills the elements from at on. They are drawn by fours: one that begins amid four fills the rest of them first.
func fillPiece(f []float32, init graph.Init, key rng.Key, at int) {
	if into := at % 4; into != 0 {
		var four [4]float32
		fillPiece(four[:], init, key, at-into)
		rest := copy(f, four[into:])
		f, at = f[rest:], at+rest
	}
	switch init.Kind {
	case graph.Constant:
		for i := range f {
			f[i] = float32(init.A)
		}
	case graph.Uniform:
		rng.UniformAt(f, key, at, float32(-init.A), float32(init.A))
	case graph.Normal:
		rng.NormalAt(f, key, at, float32(init.A))
	default:
		clear(f)
	}
}

// kaiming is PyTorch's default for dense and conv layers: uniform within
// 1/sqrt(fan-in) (He et al., "Delving Deep into Rectifiers", 2015, with a=√5).
func kaiming(fanIn int) graph.Init {
	return graph.Init{Kind: graph.Uniform, A: 1 / math.Sqrt(float64(max(1, fanIn)))}
}
