package kernelstest

import (
	"bytes"
	"unsafe"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

const (
	guard     = 64   // bytes before and after each buffer
	guardByte = 0xA5 // in them
	blank     = 0xff // in the buffer: four of them are a NaN
)

var guardBytes = bytes.Repeat([]byte{guardByte}, guard)

// Guarded is a 64-byte aligned buffer between guards. It starts as NaN, so that an
// element that is not written shows.
type Guarded struct {
	all []byte
	Mem []byte
}

// NewGuarded is a buffer of n bytes.
func NewGuarded(n int) Guarded {
	raw := make([]byte, n+2*guard+64)
	skip := (64 - int(uintptr(unsafe.Pointer(&raw[0]))%64)) % 64
	all := raw[skip : skip+n+2*guard]
	copy(all, guardBytes)
	copy(all[guard+n:], guardBytes)
	mem := all[guard : guard+n : guard+n]
	if n > 0 {
		mem[0] = blank
	}
	for done := 1; done < n; done *= 2 {
		copy(mem[done:], mem[:done])
	}
	return Guarded{all, mem}
}

// Intact reports whether nobody wrote to the guards.
func (g Guarded) Intact() bool {
	return bytes.Equal(g.all[:guard], guardBytes) && bytes.Equal(g.all[len(g.all)-guard:], guardBytes)
}

// Load is an array as device bytes.
func Load(a ref.Array) Guarded {
	g := NewGuarded(int(a.Meta.Bytes()))
	if a.Meta.DType == shape.Int32 {
		copy(shape.View[int32](g.Mem), a.I)
		return g
	}
	if a.Meta.DType == shape.BFloat16 {
		for i, v := range a.F {
			ops.NarrowBF16(shape.View[uint16](g.Mem)[i:], []float32{float32(v)})
		}
		return g
	}
	if a.Meta.DType == shape.Int8Block {
		row, pitch := make([]float32, a.Meta.Shape.Dim(-1)), shape.BlocksBytes(a.Meta.Shape.Dim(-1))
		for at := 0; at < len(a.F); at += len(row) {
			for i := range row {
				row[i] = float32(a.F[at+i])
			}
			ops.NarrowInt8(g.Mem[at/len(row)*pitch:], row)
		}
		return g
	}
	dst := shape.View[float32](g.Mem)
	for i, v := range a.F {
		dst[i] = float32(v)
	}
	return g
}
