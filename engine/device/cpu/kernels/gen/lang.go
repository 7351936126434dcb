package main

import (
	"fmt"
	"math"
	"regexp"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lang writes arithmetic on vectors once for both widths. Its methods emit the
// instruction and return a new register with the result.
type lang struct {
	*build.Context
	simd
	constants map[string]bool // those of this file
}

// value is a vector in a register.
type value = reg.VecVirtual

// define begins a function over elements. Its parameters follow signature, the
// last of which, n, is the number of elements.
func (l *lang) define(name, signature string, doc ...string) {
	l.Function(name + l.suffix)
	l.Attributes(attr.NOSPLIT)
	l.SignatureExpr(signature)
	l.Pragma("noescape")
	doc[0] = name + l.suffix + " " + doc[0]
	l.Doc(doc...)
}

// param is an argument in a general register.
func (l *lang) param(name string) reg.GPVirtual {
	r := l.GP64()
	l.Load(l.Param(name), r)
	return r
}

// spread is an argument of four bytes in all lanes.
func (l *lang) spread(name string) value {
	p, err := l.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	v := l.register(l.Context)
	l.broadcast(l.Context, p.Addr, v)
	return v
}

// wholeConstant is an instruction on 16 lanes of 32 bits, or the even ones of these, that
// reads a constant.
var wholeConstant = regexp.MustCompile(`(?m)^\t(V\w+(?:PS|D|UDQ)) +((?:\$0x\w+, )?c[0-9a-f]{8}<>\+0\(SB\), (?:K\d, )?Z)`)

// encodeConstants makes such instructions read one lane's constant and spread it.
// The linker aligns a constant of 64 bytes to 32, so that in about every other program
// all of them would lie across two lines of the cache and take twice as long to read.
func encodeConstants(text []byte) []byte {
	return wholeConstant.ReplaceAllFunc(text, func(line []byte) []byte {
		m := wholeConstant.FindSubmatch(line)
		name := string(m[1]) + ".BCST"
		if name == "VMOVUPS.BCST" {
			name = "VBROADCASTSS"
		}
		return []byte("\t" + name + " " + string(m[2]))
	})
}

// bits is a constant word in all lanes, in memory.
func (l *lang) bits(word uint32) Mem {
	name := fmt.Sprintf("c%08x", word)
	if !l.constants[name] {
		l.constants[name] = true
		l.StaticGlobal(name)
		l.DataAttributes(attr.RODATA | attr.NOPTR)
		for at := 0; at < 64; at += 4 {
			l.AddDatum(at, U32(word))
		}
	}
	return NewDataAddr(Symbol{Name: name, Static: true}, 0)
}

// k is a constant in all lanes, in memory.
func (l *lang) k(f float64) Mem { return l.bits(math.Float32bits(float32(f))) }

// in brings an operand into a register.
func (l *lang) in(a Op) value {
	if v, ok := a.(value); ok {
		return v
	}
	v := l.register(l.Context)
	l.VMOVUPS(a, v)
	return v
}

// copy is another register with the same contents. Constants are not aligned.
func (l *lang) copy(a Op) value {
	v := l.register(l.Context)
	l.VMOVUPS(a, v)
	return v
}

// zero is 0 in all lanes.
func (l *lang) zero() value {
	v := l.register(l.Context)
	l.clear(l.Context, v)
	return v
}

func (l *lang) add(a value, b Op) value { v := l.register(l.Context); l.VADDPS(b, a, v); return v }
func (l *lang) sub(a value, b Op) value { v := l.register(l.Context); l.VSUBPS(b, a, v); return v }
func (l *lang) mul(a value, b Op) value { v := l.register(l.Context); l.VMULPS(b, a, v); return v }
func (l *lang) div(a value, b Op) value { v := l.register(l.Context); l.VDIVPS(b, a, v); return v }
func (l *lang) sqrt(a Op) value         { v := l.register(l.Context); l.VSQRTPS(a, v); return v }
func (l *lang) and(a value, b Op) value { v := l.register(l.Context); l.VANDPS(b, a, v); return v }
func (l *lang) or(a value, b Op) value  { v := l.register(l.Context); l.VORPS(b, a, v); return v }
func (l *lang) xor(a value, b Op) value { v := l.register(l.Context); l.VXORPS(b, a, v); return v }

// clamp is x within two constants; NaN stays.
func (l *lang) clamp(x value, lo, hi float64) value {
	v := l.in(l.k(hi))
	l.VMINPS(x, v, v) // the second source where either is NaN
	return l.atLeast(lo, v)
}

// atLeast is x, or a constant where that is more; NaN stays.
func (l *lang) atLeast(least float64, x value) value {
	v := l.in(l.k(least))
	l.VMAXPS(x, v, v) // the second source where either is NaN
	return v
}

// fma is a*b + c, rounded once.
func (l *lang) fma(a value, b Op, c Op) value {
	v := l.copy(c)
	l.VFMADD231PS(b, a, v)
	return v
}

// fnma is c - a*b, rounded once.
func (l *lang) fnma(a value, b Op, c Op) value {
	v := l.copy(c)
	l.VFNMADD231PS(b, a, v)
	return v
}

// fms is a*b - c, rounded once.
func (l *lang) fms(a value, b Op, c Op) value {
	v := l.copy(c)
	l.VFMSUB231PS(b, a, v)
	return v
}

// poly is c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
func (l *lang) poly(x value, c ...float64) value {
	v := l.in(l.k(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		l.VFMADD213PS(l.k(c[i]), x, v)
	}
	return v
}

// Predicates of comparisons. Those with "not" hold for NaN, and unordered for NaN alone; the
// others do not.
const (
	unordered      = 0x03
	notEqual       = 0x04
	less           = 0x11
	lessOrEqual    = 0x12
	notLess        = 0x15
	notLessOrEqual = 0x16
	greater        = 0x1e
)

// choose is x in the lanes where a compares with b so, and y in the others.
func (l *lang) choose(a value, predicate uint8, b Op, x Op, y value) value {
	v := l.register(l.Context)
	if l.lanes == 16 {
		k := l.K()
		l.VCMPPS(Imm(uint64(predicate)), b, a, k)
		l.VBLENDMPS(x, y, k, v)
		return v
	}
	l.VCMPPS(Imm(uint64(predicate)), b, a, v)
	l.VBLENDVPS(v, x, y, v)
	return v
}

// whole is x rounded to the nearest whole number.
func (l *lang) whole(x value) value {
	v := l.register(l.Context)
	if l.lanes == 16 {
		l.VRNDSCALEPS(Imm(8), x, v)
	} else {
		l.VROUNDPS(Imm(8), x, v)
	}
	return v
}

// scale is x*2^n for whole n from -252 to 254, rounded once.
func (l *lang) scale(x, n value) value {
	v := l.register(l.Context)
	if l.lanes == 16 {
		l.VSCALEFPS(n, x, v)
		return v
	}
	whole, half := l.register(l.Context), l.register(l.Context)
	l.VCVTPS2DQ(n, whole)
	l.VPSRAD(Imm(1), whole, half)
	l.VPSUBD(half, whole, whole)
	for _, part := range []value{half, whole} { // 2^part is its bits
		l.VPADDD(l.bits(127), part, part)
		l.VPSLLD(Imm(23), part, part)
	}
	l.VMULPS(half, x, v)
	l.VMULPS(whole, v, v)
	return v
}

// cursor is where a loop is: at an index of every array, and so many elements
// ahead.
type cursor struct {
	index reg.GPVirtual
	ahead int // elements
	mask  Op
}

// at is the vector of an array that a loop is at.
func (c cursor) at(base reg.GPVirtual) Mem {
	return Mem{Base: base, Index: c.index, Scale: 4, Disp: 4 * c.ahead}
}

// get loads the vector of an array that a loop is at; lanes that are beyond
// the end are 0.
func (l *lang) get(base reg.GPVirtual, c cursor) value {
	v := l.register(l.Context)
	l.load(l.Context, c.at(base), c.mask, v, v)
	return v
}

// put stores a vector; lanes beyond the end are not written.
func (l *lang) put(v value, base reg.GPVirtual, c cursor) {
	var tmp value
	if c.mask != nil && l.lanes == 8 {
		tmp = l.register(l.Context)
	}
	l.store(l.Context, v, c.mask, tmp, c.at(base))
}

// loop goes through n elements: whole vectors, unroll of them at a time and
// then one at a time, and a masked one at the end. body is told which of the
// unrolled vectors it emits.
func (l *lang) loop(n reg.GPVirtual, unroll int, body func(u int, c cursor)) {
	i := l.GP64()
	l.XORQ(i, i)
	if unroll > 1 {
		l.Label("unrolled")
		l.CMPQ(n, Imm(uint64(unroll*l.lanes)))
		l.JLT(LabelRef("single"))
		for u := range unroll {
			body(u, cursor{i, u * l.lanes, nil})
		}
		l.ADDQ(Imm(uint64(unroll*l.lanes)), i)
		l.SUBQ(Imm(uint64(unroll*l.lanes)), n)
		l.JMP(LabelRef("unrolled"))
	}
	l.Label("single")
	l.CMPQ(n, Imm(uint64(l.lanes)))
	l.JLT(LabelRef("tail"))
	body(0, cursor{i, 0, nil})
	l.ADDQ(Imm(uint64(l.lanes)), i)
	l.SUBQ(Imm(uint64(l.lanes)), n)
	l.JMP(LabelRef("single"))
	l.Label("tail")
	l.TESTQ(n, n)
	l.JEQ(LabelRef("done"))
	body(0, cursor{i, 0, l.masks(l.Context, n, 1)[0]})
	l.Label("done")
}

// done ends a function without a result.
func (l *lang) done() {
	l.VZEROUPPER()
	l.RET()
}
