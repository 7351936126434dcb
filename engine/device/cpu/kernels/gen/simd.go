package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// simd is one width of vectors: how many float32 one holds, the largest tile
// of a product whose sums stay in registers, and the instructions. A mask is
// the index of a vector of the tile whose columns end inside it, -1 for none.
type simd struct {
	suffix   string // of function names
	about    string
	lanes    int
	rows     int  // of the largest tile, which is two vectors wide
	pairs    bool // a word holds two numbers, as bfloat16
	register func(c *build.Context) reg.VecVirtual

	// masks prepares the masks of a tile of cols columns and returns what
	// load and store take; vectors is how many there are.
	masks func(c *build.Context, cols reg.GPVirtual, vectors int) []Op
	load  func(c *build.Context, m Mem, mask Op, tmp, dst reg.VecVirtual)
	store func(c *build.Context, src reg.VecVirtual, mask Op, tmp reg.VecVirtual, m Mem)
	// clear takes VXORPS, which the assembler library knows not to read r.
	clear     func(c *build.Context, r reg.VecVirtual)
	broadcast func(c *build.Context, m Mem, dst reg.VecVirtual)
	madd      func(c *build.Context, b, x, sum reg.VecVirtual) // sum += b*x
}

// avx512 keeps 8 x 32 sums in 16 of 32 registers; masks are opmask registers.
func avx512() simd {
	return simd{
		suffix: "512", about: "AVX-512", lanes: 16, rows: 8,
		register: func(c *build.Context) reg.VecVirtual { return c.ZMM() },
		masks: func(c *build.Context, cols reg.GPVirtual, vectors int) []Op {
			if vectors == 2 {
				c.SUBQ(Imm(16), cols)
			}
			bits, k := c.GP32(), c.K()
			c.MOVL(U32(0xffff), bits)
			c.BZHIL(cols.As32(), bits, bits)
			c.KMOVW(bits, k)
			return append(make([]Op, vectors-1), k)
		},
		load: func(c *build.Context, m Mem, mask Op, _, dst reg.VecVirtual) {
			if mask == nil {
				c.VMOVUPS(m, dst)
				return
			}
			c.VMOVUPS_Z(m, mask, dst)
		},
		store: func(c *build.Context, src reg.VecVirtual, mask Op, _ reg.VecVirtual, m Mem) {
			if mask == nil {
				c.VMOVUPS(src, m)
				return
			}
			c.VMOVUPS(src, mask, m)
		},
		clear:     func(c *build.Context, r reg.VecVirtual) { c.VXORPS(r, r, r) },
		broadcast: func(c *build.Context, m Mem, dst reg.VecVirtual) { c.VBROADCASTSS(m, dst) },
		madd:      func(c *build.Context, b, x, sum reg.VecVirtual) { c.VFMADD231PS(b, x, sum) },
	}
}

// avx2 keeps 6 x 16 sums in 12 of 16 registers. Masks are vectors in memory,
// since no register is left for them.
func avx2() simd {
	return simd{
		suffix: "2", about: "AVX2 and FMA", lanes: 8, rows: 6,
		register: func(c *build.Context) reg.VecVirtual { return c.YMM() },
		masks: func(c *build.Context, cols reg.GPVirtual, vectors int) []Op {
			table, at := maskTable(c), c.GP64()
			if vectors == 2 {
				c.SUBQ(Imm(8), cols)
			}
			c.LEAQ(table, at)
			c.NEGQ(cols)
			c.LEAQ(Mem{Base: at, Index: cols, Scale: 4, Disp: maskZeros}, at)
			return append(make([]Op, vectors-1), Mem{Base: at})
		},
		load: func(c *build.Context, m Mem, mask Op, tmp, dst reg.VecVirtual) {
			if mask == nil {
				c.VMOVUPS(m, dst)
				return
			}
			c.VMOVUPS(mask, tmp)
			c.VMASKMOVPS(m, tmp, dst)
		},
		store: func(c *build.Context, src reg.VecVirtual, mask Op, tmp reg.VecVirtual, m Mem) {
			if mask == nil {
				c.VMOVUPS(src, m)
				return
			}
			c.VMOVUPS(mask, tmp)
			c.VMASKMOVPS(src, tmp, m)
		},
		clear:     func(c *build.Context, r reg.VecVirtual) { c.VXORPS(r, r, r) },
		broadcast: func(c *build.Context, m Mem, dst reg.VecVirtual) { c.VBROADCASTSS(m, dst) },
		madd:      func(c *build.Context, b, x, sum reg.VecVirtual) { c.VFMADD231PS(b, x, sum) },
	}
}

// maskZeros is where in the table of masks the zeros start.
const maskZeros = 64

// maskTable is sixteen lanes of ones and as many of zeros: the mask of n
// columns starts n lanes before the zeros.
func maskTable(c *build.Context) Mem {
	const name = "lanes"
	if !declared[c] {
		declared[c] = true
		c.StaticGlobal(name)
		c.DataAttributes(attr.RODATA | attr.NOPTR)
		for at := 0; at < 2*maskZeros; at += 4 {
			v := uint32(0)
			if at < maskZeros {
				v = 0xffffffff
			}
			c.AddDatum(at, U32(v))
		}
	}
	return NewDataAddr(Symbol{Name: name, Static: true}, 0)
}

// declared are the files that have the table.
var declared = map[*build.Context]bool{}
