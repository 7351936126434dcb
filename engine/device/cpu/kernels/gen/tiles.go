package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Tile registers of a product: sums first, by row and column of tiles, then the
// factors. A tile has 16 rows of 64 bytes.
const (
	tileA, tileB = 4, 6
	tileRows     = 16
	tileBytes    = 64
)

// emitTiles writes the products of pairs of bfloat16 with AMX, for one or two
// rows and columns of tiles, and the copy that makes panels of B for them.
func emitTiles(c *build.Context) {
	for _, rows := range []int{2, 1} {
		for _, cols := range []int{2, 1} {
			emitTileProduct(c, rows, cols)
		}
	}
	emitSpreadPairs(c)
}

// amx adds an instruction that neither the assembler library nor Go's assembler
// knows; encodeTiles writes it in bytes.
func amx(c *build.Context, opcode string, operands ...Op) {
	var in []Op
	for _, o := range operands {
		if m, ok := o.(Mem); ok {
			in = append(in, m)
		}
	}
	c.Instruction(&ir.Instruction{Opcode: opcode, Operands: operands, Inputs: in, ISA: []string{"AMX_BF16"}})
}

func emitTileProduct(c *build.Context, rows, cols int) {
	name := fmt.Sprintf("Tiles%d%d", rows, cols)
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(shapes *byte, c *float32, ldc int, a *float32, ars int, b *float32, step, rows, cols, panels, k int, sums *float32)")
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s computes %s rows of a product of bfloat16 with AMX, and panels of %s columns each:", name, upTo(rows), upTo(cols)),
		"C = A*B, and if sums is not nil, which has room for 32x32 numbers, C += A*B. A has pairs of steps of k in",
		"rows, B in panels with rows of 32 pairs. Strides are in places of float32; k counts 32 steps. shapes configures",
		"the tiles.")
	t := tiles{Context: c, rows: rows, cols: cols}
	t.product()
}

func upTo(tiles int) string {
	if tiles == 1 {
		return "at most 16"
	}
	return "17 to 32"
}

// tiles is a product that is being written.
type tiles struct {
	*build.Context
	rows, cols int
	mask       [2]reg.OpmaskVirtual
}

func (t *tiles) load(name string) reg.GPVirtual {
	r := t.GP64()
	t.Load(t.Param(name), r)
	return r
}

func (t *tiles) product() {
	shapes := t.load("shapes")
	amx(t.Context, "LDTILECFG", Mem{Base: shapes})
	y, b, ldc, ars := t.load("c"), t.load("b"), t.load("ldc"), t.load("ars")
	t.SHLQ(Imm(2), ldc)
	t.SHLQ(Imm(2), ars)
	panels, line, below := t.load("panels"), t.GP64(), t.GP64()
	t.MOVQ(I32(2*tileBytes), line)
	t.Label("panel")
	for i := range t.rows * 2 {
		if i%2 < t.cols {
			amx(t.Context, "TILEZERO", U8(uint8(i)))
		}
	}
	x, x2, at, k := t.load("a"), t.GP64(), t.GP64(), t.load("k")
	t.MOVQ(ars, x2)
	t.SHLQ(Imm(4), x2)
	t.ADDQ(x, x2)
	t.MOVQ(b, at)
	t.Label("steps")
	t.multiply(x, x2, at, ars, line)
	t.ADDQ(Imm(tileBytes), x)
	t.ADDQ(Imm(tileBytes), x2)
	t.ADDQ(I32(tileRows*2*tileBytes), at)
	t.DECQ(k)
	t.JNE(LabelRef("steps"))
	sums := t.load("sums")
	t.TESTQ(sums, sums)
	t.JNE(LabelRef("add"))
	t.store(y, ldc, below)
	t.Label("next")
	t.ADDQ(I32(2*tileBytes), y)
	step := t.load("step")
	t.LEAQ(Mem{Base: b, Index: step, Scale: 4}, b)
	t.DECQ(panels)
	t.JNE(LabelRef("panel"))
	amx(t.Context, "TILERELEASE")
	t.RET()
	t.Label("add")
	t.store(sums, line, below)
	t.addSums(y, ldc, sums)
	t.JMP(LabelRef("next"))
}

// multiply adds the products of 32 steps.
func (t *tiles) multiply(x, x2, b, ars, line reg.GPVirtual) {
	c := t.Context
	amx(c, "TILELOADD", Mem{Base: x, Index: ars, Scale: 1}, U8(tileA))
	for j := range t.cols {
		amx(c, "TILELOADD", Mem{Base: b, Index: line, Scale: 1, Disp: j * tileBytes}, U8(uint8(tileB+j)))
		amx(c, "TDPBF16PS", U8(tileA), U8(uint8(tileB+j)), U8(uint8(j)))
	}
	if t.rows == 1 {
		return
	}
	amx(c, "TILELOADD", Mem{Base: x2, Index: ars, Scale: 1}, U8(tileA+1))
	for j := range t.cols {
		amx(c, "TDPBF16PS", U8(tileA+1), U8(uint8(tileB+j)), U8(uint8(2+j)))
	}
}

// store writes the sums to rows that are stride bytes apart.
func (t *tiles) store(y, stride, below reg.GPVirtual) {
	t.MOVQ(stride, below)
	t.SHLQ(Imm(4), below)
	t.ADDQ(y, below)
	for i, base := range []reg.GPVirtual{y, below}[:t.rows] {
		for j := range t.cols {
			amx(t.Context, "TILESTORED", U8(uint8(2*i+j)), Mem{Base: base, Index: stride, Scale: 1, Disp: j * tileBytes})
		}
	}
}

// addSums adds rows of 32 sums to C.
func (t *tiles) addSums(y, ldc, sums reg.GPVirtual) {
	rows, cols, at, bits, ones := t.load("rows"), t.load("cols"), t.GP64(), t.GP64(), t.GP64()
	t.MOVQ(I32(-1), ones)
	t.BZHIQ(cols, ones, bits)
	for j := range t.cols {
		t.mask[j] = t.K()
		t.KMOVW(bits.As32(), t.mask[j])
		t.SHRQ(Imm(16), bits)
	}
	t.MOVQ(y, at)
	t.Label("row")
	for j := range t.cols {
		z, to := t.ZMM(), Mem{Base: at, Disp: j * tileBytes}
		t.VMOVUPS_Z(to, t.mask[j], z)
		t.VADDPS(Mem{Base: sums, Disp: j * tileBytes}, z, z)
		t.VMOVUPS(z, t.mask[j], to)
	}
	t.ADDQ(ldc, at)
	t.ADDQ(Imm(2*tileBytes), sums)
	t.DECQ(rows)
	t.JNE(LabelRef("row"))
	t.VZEROUPPER()
}

// emitSpreadPairs writes the copy that makes panels of pairs.
func emitSpreadPairs(c *build.Context) {
	c.Function("SpreadPairs512")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(dst *float32, step int, src *float32, srs, cols, k int)")
	c.Pragma("noescape")
	c.Doc("SpreadPairs512 rounds k rows of cols columns to bfloat16 with AVX-512 and copies them to panels of 32 columns,",
		"step places of float32 apart. Rows 2i and 2i+1 become row i of pairs; what is missing of either is zero. srs is",
		"the elements from row to row.")
	t := tiles{Context: c}
	dst, step, src, srs, k := t.load("dst"), t.load("step"), t.load("src"), t.load("srs"), t.load("k")
	r, high, bits, ones := newRounder(c), c.ZMM(), c.GP32(), c.GP32()
	c.MOVL(U32(0xffff0000), bits)
	c.VPBROADCASTD(bits, high)
	c.MOVL(U32(0xffff), ones)
	c.SHLQ(Imm(2), step)
	c.SHLQ(Imm(2), srs)
	c.Label("rows")
	cols, x, to, n := t.load("cols"), c.GP64(), c.GP64(), c.GP64()
	first, second := c.K(), c.K()
	c.MOVQ(src, x)
	c.MOVQ(dst, to)
	c.Label("panel")
	for j := range 2 {
		// Of this vector's columns, those that there are.
		c.MOVQ(cols, n)
		if j == 1 {
			c.SUBQ(Imm(16), n)
		}
		zero := c.GP64()
		c.XORQ(zero, zero)
		c.TESTQ(n, n)
		c.CMOVQLT(zero, n)
		c.CMPQ(n, Imm(16))
		sixteen := c.GP64()
		c.MOVQ(I32(16), sixteen)
		c.CMOVQGT(sixteen, n)
		c.BZHIL(n.As32(), ones, bits)
		c.KMOVW(bits, first)
		c.CMPQ(k, Imm(2))
		c.CMOVLLT(zero.As32(), bits)
		c.KMOVW(bits, second)
		a, b := c.ZMM(), c.ZMM()
		c.VMOVUPS_Z(Mem{Base: x, Disp: j * tileBytes}, first, a)
		c.VMOVUPS_Z(Mem{Base: x, Index: srs, Scale: 1, Disp: j * tileBytes}, second, b)
		low, up := r.round(a), r.round(b)
		c.VPSRLD(Imm(16), low, low)
		c.VPANDD(high, up, up)
		c.VPORD(low, up, up)
		c.VMOVDQU32(up, Mem{Base: to, Disp: j * tileBytes})
	}
	c.ADDQ(Imm(2*tileBytes), x)
	c.ADDQ(step, to)
	c.SUBQ(Imm(32), cols)
	c.JGT(LabelRef("panel"))
	c.ADDQ(Imm(2*tileBytes), dst)
	c.LEAQ(Mem{Base: src, Index: srs, Scale: 2}, src)
	c.SUBQ(Imm(2), k)
	c.JGT(LabelRef("rows"))
	c.VZEROUPPER()
	c.RET()
}

var (
	tileLines = regexp.MustCompile(`(?m)^\t(LDTILECFG|TILERELEASE|TILEZERO|TDPBF16PS|TILELOADD|TILESTORED)\b(.*)$`)
	tileParts = regexp.MustCompile(`\$0x0(\d)|(\d*)\((\w+)\)(?:\((\w+)\*1\))?`)
	gpNumbers = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SP": 4, "BP": 5, "SI": 6, "DI": 7}
)

// encodeTiles replaces AMX's instructions by their bytes: VEX.128.0F38.W0 with
// a prefix and an opcode each, memory always with an index where tiles move.
func encodeTiles(text []byte) []byte {
	return tileLines.ReplaceAllFunc(text, func(line []byte) []byte {
		m := tileLines.FindSubmatch(line)
		var tmm []int
		var base, index, disp int
		for _, p := range tileParts.FindAllStringSubmatch(string(m[2]), -1) {
			if p[1] != "" {
				tmm = append(tmm, atoi(p[1]))
				continue
			}
			base, index, disp = gpNumber(p[3]), gpNumber(p[4]), atoi(p[2])
		}
		moved := func(pp, reg int) []int {
			modrm := []int{reg<<3 | 4, index&7<<3 | base&7}
			if disp != 0 || base&7 == 5 {
				modrm = append([]int{1<<6 | modrm[0], modrm[1]}, disp)
			}
			return append([]int{0xc4, 1<<7 | (^index>>3&1)<<6 | (^base>>3&1)<<5 | 2, 15<<3 | pp, 0x4b}, modrm...)
		}
		var code []int
		switch string(m[1]) {
		case "LDTILECFG":
			index = 4 // none
			code = moved(0, 0)
			code[3] = 0x49
		case "TILERELEASE":
			code = []int{0xc4, 0xe2, 0x78, 0x49, 0xc0}
		case "TILEZERO":
			code = []int{0xc4, 0xe2, 0x7b, 0x49, 3<<6 | tmm[0]<<3}
		case "TDPBF16PS": // A, B, sums
			code = []int{0xc4, 0xe2, (^tmm[1]&15)<<3 | 2, 0x5c, 3<<6 | tmm[2]<<3 | tmm[0]}
		case "TILELOADD":
			code = moved(3, tmm[0])
		case "TILESTORED":
			code = moved(2, tmm[0])
		}
		var out []string
		for _, v := range code {
			out = append(out, fmt.Sprintf("BYTE $0x%02x", v))
		}
		return []byte("\t" + strings.Join(out, "; ") + " // " + strings.TrimSpace(string(line)))
	})
}

func gpNumber(name string) int {
	if n, ok := gpNumbers[name]; ok {
		return n
	}
	return atoi(strings.TrimPrefix(name, "R"))
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
