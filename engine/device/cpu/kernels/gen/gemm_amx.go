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
// factors. A tile has 16 rows of 64 bytes. Factors lie in panels: for every 32 steps of
// k and every term of the numbers, two tiles of 16 rows of A or columns of B.
const (
	tileA, tileB = 4, 6
	tileRows     = 16
	tileRow      = 64
	tileBytes    = tileRows * tileRow
)

// splits are the terms of A and of B, out of three each, whose products make one of
// float32: those that reach the digits that float32 keeps.
var splits = [][2]int{{0, 2}, {0, 0}, {0, 1}, {1, 1}, {1, 0}, {2, 0}}

// emitGemmAMX writes products with AMX, of bfloat16 and of float32 as three terms of
// bfloat16, for one or two rows and columns of tiles, and the copies that make panels
// for them.
func emitGemmAMX(c *build.Context) {
	for _, terms := range []int{1, 3} {
		for _, rows := range []int{2, 1} {
			for _, cols := range []int{2, 1} {
				emitTileProduct(c, rows, cols, terms)
			}
		}
	}
	for _, terms := range []int{1, 3} {
		emitTilesOfRows(c, terms)
		emitTilesOfColumns(c, terms)
	}
	emitTurnTiles(c)
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

func emitTileProduct(c *build.Context, rows, cols, terms int) {
	name, what := fmt.Sprintf("Tiles%d%d", rows, cols), "of bfloat16"
	if terms > 1 {
		name, what = fmt.Sprintf("Split%d%d", rows, cols), "of float32, each as three terms of bfloat16,"
	}
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(shapes *byte, c *float32, ldc int, a *float32, b *float32, step, rows, cols, panels, k int, sums *float32)")
	c.Pragma("noescape")
	c.Doc(fmt.Sprintf("%s computes %s rows of a product %s with AMX, and panels of %s columns", name, upTo(rows), what, upTo(cols)),
		"each: C = A*B, and if sums is not nil, which has room for 32x32 numbers, C += A*B. A is a panel, and B are some,",
		"step words apart. ldc counts words, k 32 steps. shapes configures the tiles; for numbers in terms",
		"four of 64 bits follow it: an address to fetch lines into the second cache from, two at a time, and the bytes from",
		"one pair to the next, to add after every fourth, and from panel to panel. Every 32 steps ask for eight lines.")
	t := tiles{Context: c, rows: rows, cols: cols, terms: terms}
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
	rows, cols, terms int
	mask              [2]reg.OpmaskVirtual
	fetch, fetchRow   reg.GPVirtual // the next lines to fetch, and from pair to pair
}

func (t *tiles) load(name string) reg.GPVirtual {
	r := t.GP64()
	t.Load(t.Param(name), r)
	return r
}

// stepBytes is the bytes of a panel for 32 steps of k.
func stepBytes(terms int) int { return terms * 2 * tileBytes }

func (t *tiles) product() {
	shapes := t.load("shapes")
	amx(t.Context, "LDTILECFG", Mem{Base: shapes})
	y, b, ldc := t.load("c"), t.load("b"), t.load("ldc")
	t.SHLQ(Imm(2), ldc)
	panels, line, below := t.load("panels"), t.GP64(), t.GP64()
	fetches := t.terms > 1
	fetched := Mem{Base: shapes, Disp: 64}
	if fetches {
		t.fetch, t.fetchRow = t.GP64(), t.GP64()
		t.MOVQ(fetched.Offset(8), t.fetchRow)
	}
	t.MOVQ(I32(tileRow), line)
	t.Label("panel")
	for i := range t.rows * 2 {
		if i%2 < t.cols {
			amx(t.Context, "TILEZERO", U8(uint8(i)))
		}
	}
	x, at, k := t.load("a"), t.GP64(), t.load("k")
	t.MOVQ(b, at)
	if fetches {
		t.MOVQ(fetched, t.fetch)
	}
	t.Label("steps")
	t.multiply(x, at, line)
	if fetches {
		t.ADDQ(fetched.Offset(16), t.fetch)
	}
	t.ADDQ(I32(stepBytes(t.terms)), x)
	t.ADDQ(I32(stepBytes(t.terms)), at)
	t.DECQ(k)
	t.JNE(LabelRef("steps"))
	sums := t.load("sums")
	t.TESTQ(sums, sums)
	t.JNE(LabelRef("add"))
	t.store(y, ldc, below)
	t.Label("next")
	t.ADDQ(I32(2*tileRow), y)
	step := t.load("step")
	if fetches {
		t.MOVQ(fetched.Offset(24), t.fetch)
		t.ADDQ(t.fetch, fetched)
	}
	t.LEAQ(Mem{Base: b, Index: step, Scale: 4}, b)
	t.DECQ(panels)
	t.JNE(LabelRef("panel"))
	amx(t.Context, "TILERELEASE")
	t.RET()
	t.Label("add")
	t.ADDQ(line, line)
	t.store(sums, line, below)
	t.SHRQ(Imm(1), line)
	t.addSums(y, ldc, sums)
	t.JMP(LabelRef("next"))
}

// multiply adds the products of 32 steps. A term stays in its tiles while the next
// products want it. Meanwhile the next 32 steps of B are fetched into the first cache,
// and the lines of tileConfig's prefetch into the second.
func (t *tiles) multiply(x, b, line reg.GPVirtual) {
	turns := splits
	if t.terms == 1 {
		turns = [][2]int{{}}
	}
	ahead := stepBytes(t.terms)
	lines := stepBytes(t.terms) / 64 / (len(turns) * t.rows * t.cols) // with each product of tiles
	last := [2]int{-1, -1}
	for turn, terms := range turns {
		factor := func(i, n, first int, base reg.GPVirtual) {
			for j := 0; terms[i] != last[i] && j < n; j++ {
				amx(t.Context, "TILELOADD", Mem{Base: base, Index: line, Scale: 1, Disp: (2*terms[i] + j) * tileBytes}, U8(uint8(first+j)))
			}
		}
		factor(0, t.rows, tileA, x)
		factor(1, t.cols, tileB, b)
		for i := range t.rows {
			for j := range t.cols {
				amx(t.Context, "TDPBF16PS", U8(uint8(tileA+i)), U8(uint8(tileB+j)), U8(uint8(2*i+j)))
				for range lines {
					t.PREFETCHT0(Mem{Base: b, Disp: ahead})
					ahead += 64
				}
			}
		}
		if t.terms > 1 && turn < 4 {
			t.PREFETCHT1(Mem{Base: t.fetch})
			t.PREFETCHT1(Mem{Base: t.fetch, Disp: 64})
			t.ADDQ(t.fetchRow, t.fetch)
		}
		last = terms
	}
}

// store writes the sums to rows that are stride bytes apart.
func (t *tiles) store(y, stride, below reg.GPVirtual) {
	t.MOVQ(stride, below)
	t.SHLQ(Imm(4), below)
	t.ADDQ(y, below)
	for i, base := range []reg.GPVirtual{y, below}[:t.rows] {
		for j := range t.cols {
			amx(t.Context, "TILESTORED", U8(uint8(2*i+j)), Mem{Base: base, Index: stride, Scale: 1, Disp: j * tileRow})
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
		z, to := t.ZMM(), Mem{Base: at, Disp: j * tileRow}
		t.VMOVUPS_Z(to, t.mask[j], z)
		t.VADDPS(Mem{Base: sums, Disp: j * tileRow}, z, z)
		t.VMOVUPS(z, t.mask[j], to)
	}
	t.ADDQ(ldc, at)
	t.ADDQ(I32(2*tileRow), sums)
	t.DECQ(rows)
	t.JNE(LabelRef("row"))
	t.VZEROUPPER()
}

var (
	tileLines    = regexp.MustCompile(`(?m)^\t(LDTILECFG|TILERELEASE|TILEZERO|TDPBF16PS|TILELOADD|TILESTORED)\b(.*)$`)
	tileOperands = regexp.MustCompile(`\$0x0(\d)|(\d*)\((\w+)\)(?:\((\w+)\*1\))?`)
	gpNumbers    = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SP": 4, "BP": 5, "SI": 6, "DI": 7}
)

// encodeTiles replaces AMX's instructions by their bytes: VEX.128.0F38.W0 with a prefix
// and an opcode each. Memory always has an index where tiles move.
func encodeTiles(text []byte) []byte {
	return tileLines.ReplaceAllFunc(text, func(line []byte) []byte {
		m := tileLines.FindSubmatch(line)
		var tmm []int
		var base, index, disp int
		for _, p := range tileOperands.FindAllStringSubmatch(string(m[2]), -1) {
			if p[1] != "" {
				tmm = append(tmm, atoi(p[1]))
				continue
			}
			base, index, disp = gpNumber(p[3]), gpNumber(p[4]), atoi(p[2])
		}
		moved := func(pp, reg int) []int {
			modrm := []int{reg<<3 | 4, index&7<<3 | base&7}
			switch {
			case disp > 127:
				modrm = []int{2<<6 | modrm[0], modrm[1], disp & 255, disp >> 8, 0, 0}
			case disp != 0 || base&7 == 5:
				modrm = []int{1<<6 | modrm[0], modrm[1], disp}
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
