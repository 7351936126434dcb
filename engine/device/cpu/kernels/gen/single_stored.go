package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A B that is stored as int8 or bfloat16 comes from memory in a quarter or half of the bytes. Each element is widened in a register, exactly, so
// that the sums have the bits of those of float32.

const (
	storedElems = 32 // of a block: see shape.BlockElems
	storedBytes = 2 + storedElems
)

// emitSingleStored writes the inner kernels of a product of one row with a B that is stored as int8 or bfloat16.
func emitSingleStored(c *build.Context) {
	emitSingleInt8Rows(c)
	emitSingleInt8Columns(c)
	emitSingleBF16Rows(c)
	emitSingleBF16Columns(c)
}

const singleStoredSignature = "func(y *float32, b *byte, pitch int, a *float32, k, add int)"

// emitSingleInt8Rows transposes four words of four bytes of eight rows at a time in registers, as emitSingleRows does four
// numbers. Lane i of a word has four steps of row i.
func emitSingleInt8Rows(c *build.Context) {
	y, b, pitch, a, k := single(c, "SingleInt8Rows2", singleStoredSignature,
		fmt.Sprintf("SingleInt8Rows2 multiplies %d rows of b, stored as int8 by block and pitch bytes apart, with the row a of k numbers with AVX2 and", singleRows),
		"FMA: y[i] is the sum over t of a[t] times number t of row i. With add not 0, the sum is added to y[i]. b begins at a block, and k is of whole blocks,",
		"at least one.")
	quads, pitch3 := quadsOf(c, b, pitch)
	row := func(i int) Mem { return rowOf(quads, pitch, pitch3, i) }
	x := [4]reg.VecPhysical{reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	sums := zeros(c, singleRows/8)
	var scales []reg.VecVirtual
	for range sums {
		scales = append(scales, c.YMM())
	}
	c.Label("block")
	for g, scale := range scales {
		for i := range 8 {
			if i == 0 {
				c.VMOVD(row(8*g), scale.AsX()) // its second word is overwritten
				continue
			}
			c.VPINSRW(Imm(uint64(i)), row(8*g+i), scale.AsX(), scale.AsX())
		}
		c.VPMOVZXWD(scale.AsX(), scale)
		c.VPSLLD(Imm(16), scale, scale)
	}
	for from := 0; from < storedElems; from += 16 {
		for g := range sums {
			for i := range 4 {
				c.PREFETCHT0(row(8*g + from/16*4 + i).Offset(linesAhead * line))
			}
			for i := range x {
				c.VMOVUPS(row(8*g+i).Offset(2+from), x[i].AsX())
				c.VINSERTF128(Imm(1), row(8*g+4+i).Offset(2+from), x[i], x[i])
			}
			turnWords(c, x, func(w int, word reg.VecVirtual) {
				for t := range 4 {
					c.VFMADD231PS(widenedByte(c, word, t, scales[g]), spreadNumber(c, a, 4*(from+4*w+t)), sums[g])
				}
			})
		}
	}
	for _, q := range quads {
		c.ADDQ(Imm(storedBytes), q)
	}
	c.ADDQ(Imm(4*storedElems), a)
	c.SUBQ(Imm(storedElems), k)
	c.JNE(LabelRef("block"))
	finishSingle(c, y, sums)
}

// widenedByte is byte t of each lane of a word, from the lowest on, times the scale.
func widenedByte(c *build.Context, word reg.VecVirtual, t int, scale reg.VecVirtual) reg.VecVirtual {
	v, from := c.YMM(), word
	if t < 3 {
		c.VPSLLD(Imm(uint64(24-8*t)), word, v)
		from = v
	}
	c.VPSRAD(Imm(24), from, v)
	c.VCVTDQ2PS(v, v)
	c.VMULPS(scale, v, v)
	return v
}

// emitSingleInt8Columns holds the sums of all columns in registers.
func emitSingleInt8Columns(c *build.Context) {
	y, b, pitch, a, k := single(c, "SingleInt8Columns2", singleStoredSignature,
		fmt.Sprintf("SingleInt8Columns2 multiplies the row a of k numbers with %d columns of b, whose rows are stored as int8 by block and pitch bytes", singleCols),
		"apart, with AVX2 and FMA: y[j] is the sum over t of a[t] times number j of row t. With add not 0, the sum is added to y[j]. b begins at a block. k is",
		"at least 1.")
	sums := zeros(c, singleCols/8)
	ahead := c.GP64()
	c.IMUL3Q(Imm(rowsAhead), pitch, ahead)
	c.Label("step")
	for at := 0; at < singleCols/storedElems*storedBytes; at += line {
		c.PREFETCHT0(Mem{Base: b, Index: ahead, Scale: 1, Disp: at})
	}
	v := spreadNumber(c, a, 0)
	for i, sum := range sums {
		at := 8 * i / storedElems * storedBytes
		scale, x := c.YMM(), c.YMM()
		c.VPBROADCASTW(Mem{Base: b, Disp: at}, scale)
		c.VPSLLD(Imm(16), scale, scale)
		c.VPMOVSXBD(Mem{Base: b, Disp: at + 2 + 8*i%storedElems}, x)
		c.VCVTDQ2PS(x, x)
		c.VMULPS(scale, x, x)
		c.VFMADD231PS(x, v, sum)
	}
	c.ADDQ(pitch, b)
	c.ADDQ(Imm(4), a)
	c.DECQ(k)
	c.JNE(LabelRef("step"))
	finishSingle(c, y, sums)
}

// emitSingleBF16Rows is emitSingleInt8Rows for bfloat16: a word has two steps of a row.
func emitSingleBF16Rows(c *build.Context) {
	y, b, pitch, a, k := single(c, "SingleBF16Rows2", singleStoredSignature,
		fmt.Sprintf("SingleBF16Rows2 multiplies %d rows of b, stored as bfloat16 and pitch bytes apart, with the row a of k numbers with AVX2 and FMA:", singleRows),
		"y[i] is the sum over t of a[t] times number t of row i. With add not 0, the sum is added to y[i]. k is a whole number of 16, at least one.")
	const steps = 16
	quads, pitch3 := quadsOf(c, b, pitch)
	row := func(i int) Mem { return rowOf(quads, pitch, pitch3, i) }
	x := [4]reg.VecPhysical{reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	sums := zeros(c, singleRows/8)
	zero := zeros(c, 1)[0]
	c.Label("steps")
	for from := 0; from < steps; from += 8 {
		for g := range sums {
			for i := range 4 {
				c.PREFETCHT0(row(8*g + from/8*4 + i).Offset(linesAhead * line))
			}
			for i := range x {
				c.VMOVUPS(row(8*g+i).Offset(2*from), x[i].AsX())
				c.VINSERTF128(Imm(1), row(8*g+4+i).Offset(2*from), x[i], x[i])
			}
			turnWords(c, x, func(w int, word reg.VecVirtual) {
				first, second := c.YMM(), c.YMM()
				c.VPSLLD(Imm(16), word, first)
				c.VFMADD231PS(first, spreadNumber(c, a, 4*(from+2*w)), sums[g])
				c.VPBLENDW(Imm(0xaa), word, zero, second)
				c.VFMADD231PS(second, spreadNumber(c, a, 4*(from+2*w+1)), sums[g])
			})
		}
	}
	for _, q := range quads {
		c.ADDQ(Imm(2*steps), q)
	}
	c.ADDQ(Imm(4*steps), a)
	c.SUBQ(Imm(steps), k)
	c.JNE(LabelRef("steps"))
	finishSingle(c, y, sums)
}

// emitSingleBF16Columns is emitSingleInt8Columns for bfloat16.
func emitSingleBF16Columns(c *build.Context) {
	y, b, pitch, a, k := single(c, "SingleBF16Columns2", singleStoredSignature,
		fmt.Sprintf("SingleBF16Columns2 multiplies the row a of k numbers with %d columns of b, whose rows are stored as bfloat16 and pitch bytes apart,", singleCols),
		"with AVX2 and FMA: y[j] is the sum over t of a[t] times number j of row t. With add not 0, the sum is added to y[j]. k is at least 1.")
	sums := zeros(c, singleCols/8)
	ahead := c.GP64()
	c.IMUL3Q(Imm(rowsAhead), pitch, ahead)
	c.Label("step")
	for at := 0; at < 2*singleCols; at += line {
		c.PREFETCHT0(Mem{Base: b, Index: ahead, Scale: 1, Disp: at})
	}
	v := spreadNumber(c, a, 0)
	for i, sum := range sums {
		x := c.YMM()
		c.VPMOVZXWD(Mem{Base: b, Disp: 16 * i}, x)
		c.VPSLLD(Imm(16), x, x)
		c.VFMADD231PS(x, v, sum)
	}
	c.ADDQ(pitch, b)
	c.ADDQ(Imm(4), a)
	c.DECQ(k)
	c.JNE(LabelRef("step"))
	finishSingle(c, y, sums)
}
