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
	if v.Meta.DType != shape.Float32 && v.Meta.DType != shape.BFloat16 {
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
	if v.Meta.DType == shape.BFloat16 {
		return Narrowed(shape.View[uint16](dst), fill)
	}
	f := shape.View[float32](dst)
	for at := 0; at < len(f); at += pieceElems {
		if err := fill(f[at:min(len(f), at+pieceElems)], at); err != nil {
			return err
		}
	}
	return nil
}

// Narrowed fills dst with numbers as bfloat16, rounded as [ops.RoundBF16] says: those of bfloat16
// stay as they are. read fills a piece of them, of which at is the first one's index, a multiple of 4.
// It fails with read's error, or where a number becomes infinite.
func Narrowed(dst []uint16, read func(piece []float32, at int) error) error {
	buffer := make([]float32, min(len(dst), pieceElems))
	for at := 0; at < len(dst); at += pieceElems {
		piece := buffer[:min(len(dst)-at, pieceElems)]
		if err := read(piece, at); err != nil {
			return err
		}
		ops.NarrowBF16(dst[at:], piece)
		const exponent = 0x7f80 // all of it is that of infinity and NaN
		if i := slices.IndexFunc(dst[at:at+len(piece)], func(w uint16) bool { return w&exponent == exponent }); i >= 0 {
			return fmt.Errorf("element %d is %v, which bfloat16 cannot hold", at+i, piece[i])
		}
	}
	return nil
}

// fillPiece fills the elements from at on, a multiple of 4.
func fillPiece(f []float32, init graph.Init, key rng.Key, at int) {
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
