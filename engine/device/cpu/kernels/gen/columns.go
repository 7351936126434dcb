package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitColumns writes the functions that combine the rows of a matrix, column by column, such as
// the sum of each column, for vectors of one width. Each function takes a few vectors of
// neighbouring columns through all rows, then the next columns. The columns that are left
// over, fewer than a vector has, come last, under a mask.
func emitColumns(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	for _, f := range folds {
		l.foldRows(f.name, f.doc, f.more, f.means, f.step)
	}
	l.scaleRows()
	l.scaleGradRows()
	l.firstRows()
	l.maxRows()
	l.sumEach()
	l.maxEach()
	l.mulFrom()
}

// folds are the functions that combine the rows of each column, in float64.
var folds = []struct {
	name, doc, more string
	means           bool // they take differences from a number per column
	step            func(l *lang, acc value, w []value)
}{
	{"SumRows", "adds rows to", "", false, func(l *lang, acc value, w []value) { l.VADDPD(w[0], acc, acc) }},
	{"SquaresRows", "adds rows of (x-mean)^2 to", "", true, func(l *lang, acc value, w []value) { l.VFMADD231PD(w[0], w[0], acc) }},
	{"DotRows", "adds rows of (x-mean)*y to", "y", true, func(l *lang, acc value, w []value) { l.VFMADD231PD(w[1], w[0], acc) }},
}

// base is where an array is, and the bytes of its elements.
type base struct {
	at   reg.GPVirtual
	size int
}

// down goes through n columns in groups of vectors; body goes down the rows of
// one, whose name its labels need. The last group has as many vectors as it
// takes, the last of which has a mask. bases advance, by so many bytes a column.
func (l *lang) down(n reg.GPVirtual, most int, bases []base, body func(g columnGroup)) {
	l.Label("block")
	l.CMPQ(n, count(most*l.lanes))
	l.JLT(LabelRef(fmt.Sprint("last", most)))
	body(columnGroup{"block", most, nil})
	for _, b := range bases {
		l.ADDQ(count(most*l.lanes*b.size), b.at)
	}
	l.SUBQ(count(most*l.lanes), n)
	l.JNE(LabelRef("block"))
	l.JMP(LabelRef("none"))
	for u := most; u > 0; u-- {
		name := fmt.Sprint("last", u)
		l.Label(name)
		if u > 1 {
			l.CMPQ(n, count((u-1)*l.lanes))
			l.JLE(LabelRef(fmt.Sprint("last", u-1)))
			l.SUBQ(count((u-1)*l.lanes), n)
		}
		body(columnGroup{name, u, l.masks(l.Context, n, 1)[0]})
		if u > 1 {
			l.JMP(LabelRef("none"))
		}
	}
	l.Label("none")
}

// columnGroup is some vectors, the last of which has a mask, or nil.
type columnGroup struct {
	name    string
	vectors int
	last    Op
}

// mask is that of vector i.
func (g columnGroup) mask(i int) Op {
	if i < g.vectors-1 {
		return nil
	}
	return g.last
}

// through repeats body for each row, at which arrays are.
func (l *lang) through(group string, rows, stride reg.GPVirtual, arrays []reg.GPVirtual, body func(at []reg.GPVirtual)) {
	left := l.GP64()
	l.MOVQ(rows, left)
	at := make([]reg.GPVirtual, len(arrays))
	for i, a := range arrays {
		at[i] = l.GP64()
		l.MOVQ(a, at[i])
	}
	l.Label("row" + group)
	body(at)
	for _, a := range at {
		l.ADDQ(stride, a)
	}
	l.DECQ(left)
	l.JNE(LabelRef("row" + group))
}

// wideMask is the mask of a half of a vector as float64, and nil of nil.
func (l *lang) wideMask(mask Op, half int) Op {
	if mask == nil {
		return nil
	}
	if l.lanes == 16 {
		k := l.K()
		l.KSHIFTRW(Imm(uint64(8*half)), mask, k)
		return k
	}
	m, v := mask.(Mem), l.register(l.Context)
	m.Disp += 16 * half
	l.VPMOVSXDQ(m, v)
	return v
}

// getWide loads a vector of float64; lanes that a mask leaves out are 0.
func (l *lang) getWide(m Mem, mask Op) value {
	v := l.register(l.Context)
	switch {
	case mask == nil:
		l.VMOVUPD(m, v)
	case l.lanes == 16:
		l.VMOVUPD_Z(m, mask, v)
	default:
		l.VMASKMOVPD(m, mask, v)
	}
	return v
}

// putWide stores a vector of float64, without the lanes that a mask leaves out.
func (l *lang) putWide(v value, m Mem, mask Op) {
	switch {
	case mask == nil:
		l.VMOVUPD(v, m)
	case l.lanes == 16:
		l.VMOVUPD(v, mask, m)
	default:
		l.VMASKMOVPD(v, mask, m)
	}
}

// halfAt is half i of the vectors at base as float64.
func (l *lang) halfAt(base reg.GPVirtual, i int, mask Op) value {
	if mask == nil {
		v := l.register(l.Context)
		l.VCVTPS2PD(Mem{Base: base, Disp: i * l.lanes * 2}, v)
		return v
	}
	v := l.register(l.Context)
	l.load(l.Context, Mem{Base: base, Disp: i / 2 * l.lanes * 4}, mask, v, v)
	return l.wide(v, i%2 == 1)
}

// foldRows writes a function that combines rows. There is a row and a column.
func (l *lang) foldRows(name, doc, more string, means bool, step func(l *lang, acc value, w []value)) {
	params, most := "acc *float64", 4
	if means {
		params, most = "acc, means *float64", 2
	}
	names := append([]string{"x"}, strings.Fields(more)...)
	l.define(name, "func("+params+", "+strings.Join(names, ", ")+" *float32, stride, rows, n int)",
		doc+" a number for each of n columns.", "Rows are stride elements apart. There is a row.")
	acc, mean := l.param("acc"), reg.GPVirtual(nil)
	bases := []base{{acc, 8}}
	if means {
		mean = l.param("means")
		bases = append(bases, base{mean, 8})
	}
	var arrays []reg.GPVirtual
	for _, name := range names {
		at := l.param(name)
		arrays, bases = append(arrays, at), append(bases, base{at, 4})
	}
	stride, rows := l.bytes("stride"), l.param("rows")
	l.down(l.param("n"), most, bases, func(g columnGroup) {
		sums, from := make([]value, 2*g.vectors), make([]value, 2*g.vectors)
		for i := range sums {
			m := l.wideMask(g.mask(i/2), i%2)
			sums[i] = l.getWide(Mem{Base: acc, Disp: i * l.lanes * 4}, m)
			if means {
				from[i] = l.getWide(Mem{Base: mean, Disp: i * l.lanes * 4}, m)
			}
		}
		l.through(g.name, rows, stride, arrays, func(at []reg.GPVirtual) {
			for i := range sums {
				var w []value
				for _, a := range at {
					w = append(w, l.halfAt(a, i, g.mask(i/2)))
				}
				if means {
					l.VSUBPD(from[i], w[0], w[0])
				}
				step(l, sums[i], w)
			}
		})
		for i, v := range sums {
			l.putWide(v, Mem{Base: acc, Disp: i * l.lanes * 4}, l.wideMask(g.mask(i/2), i%2))
		}
	})
	l.done()
}

// tables loads the vectors of arrays that have a number for each column.
func (l *lang) tables(names []string, g columnGroup, bases map[string]reg.GPVirtual) map[string][]value {
	all := map[string][]value{}
	for _, name := range names {
		for u := range g.vectors {
			v := l.register(l.Context)
			l.load(l.Context, Mem{Base: bases[name], Disp: 4 * u * l.lanes}, g.mask(u), v, v)
			all[name] = append(all[name], v)
		}
	}
	return all
}

// mapRows writes a function from rows to rows of y, with a number of each table
// for each column.
func (l *lang) mapRows(name, doc string, rowsOf, tables []string, f func(row []value, t func(name string) value) value) {
	l.define(name, "func(y, "+strings.Join(slices.Concat(rowsOf, tables), ", ")+" *float32, stride, rows, n int)",
		doc+" for n columns of rows that are stride", "elements apart. There is a row. The other arrays have a number for each column.")
	named := map[string]reg.GPVirtual{}
	var arrays []reg.GPVirtual
	var bases []base
	for i, name := range slices.Concat([]string{"y"}, rowsOf, tables) {
		at := l.param(name)
		bases = append(bases, base{at, 4})
		if named[name] = at; i <= len(rowsOf) {
			arrays = append(arrays, at)
		}
	}
	stride, rows := l.bytes("stride"), l.param("rows")
	l.down(l.param("n"), 2, bases, func(g columnGroup) {
		numbers := l.tables(tables, g, named)
		l.through(g.name, rows, stride, arrays, func(at []reg.GPVirtual) {
			for u := range g.vectors {
				mask := g.mask(u)
				var row []value
				for _, a := range at[1:] {
					v := l.register(l.Context)
					l.load(l.Context, Mem{Base: a, Disp: 4 * u * l.lanes}, mask, v, v)
					row = append(row, v)
				}
				v := f(row, func(name string) value { return numbers[name][u] })
				var tmp value
				if mask != nil && l.lanes == 8 {
					tmp = l.register(l.Context)
				}
				l.store(l.Context, v, mask, tmp, Mem{Base: at[0], Disp: 4 * u * l.lanes})
			}
		})
	})
	l.done()
}

func (l *lang) scaleRows() {
	l.mapRows("ScaleRows", "is y = (x-mean-rest)*factor + shift", []string{"x"}, []string{"mean", "rest", "factor", "shift"},
		func(row []value, t func(string) value) value {
			return l.fma(l.sub(l.sub(row[0], t("mean")), t("rest")), t("factor"), t("shift"))
		})
}

func (l *lang) scaleGradRows() {
	l.mapRows("ScaleGradRows", "is y = (dy - offset - (x-mean)*slope)*factor", []string{"x", "dy"}, []string{"mean", "offset", "slope", "factor"},
		func(row []value, t func(string) value) value {
			return l.mul(l.fnma(l.sub(row[0], t("mean")), t("slope"), l.sub(row[1], t("offset"))), t("factor"))
		})
}

// firstRows lets nothing equal what has been found.
func (l *lang) firstRows() {
	const equal = 0
	l.mapRows("FirstRows", "is y = dy where x is most for the first time in its column, and 0 elsewhere,", []string{"x"}, []string{"most", "dy"},
		func(row []value, t func(string) value) value {
			if l.lanes == 16 {
				k, v := l.K(), l.register(l.Context)
				l.VCMPPS(Imm(equal), row[0], t("most"), k)
				l.VMOVAPS_Z(t("dy"), k, v)
				l.VBROADCASTSS(l.bits(quietNaN), k, t("most"))
				return v
			}
			m := l.register(l.Context)
			l.VCMPPS(Imm(equal), row[0], t("most"), m)
			l.VORPS(m, t("most"), t("most"))
			return l.and(t("dy"), m)
		})
}

// maxRows compares in float32, a group of columns at a time.
func (l *lang) maxRows() {
	l.define("MaxRows", "func(acc *float64, x *float32, stride, rows, n int)",
		"replaces by what is larger in rows, and for good by NaN, a number for each of n columns.",
		"Rows are stride elements apart. There is a row.")
	acc, x, stride, rows := l.param("acc"), l.param("x"), l.bytes("stride"), l.param("rows")
	l.down(l.param("n"), 4, []base{{acc, 8}, {x, 4}}, func(g columnGroup) {
		most := make([]value, g.vectors)
		for u := range most {
			most[u] = l.in(l.bits(0xff800000))
		}
		l.through(g.name, rows, stride, []reg.GPVirtual{x}, func(at []reg.GPVirtual) {
			for u, m := range most {
				v := l.register(l.Context)
				l.load(l.Context, Mem{Base: at[0], Disp: 4 * u * l.lanes}, g.mask(u), v, v)
				l.larger(m, v, false)
			}
		})
		for i := range 2 * g.vectors {
			m, mask := Mem{Base: acc, Disp: i * l.lanes * 4}, l.wideMask(g.mask(i/2), i%2)
			v := l.getWide(m, mask)
			l.larger(v, l.wide(most[i/2], i%2 == 1), true)
			l.putWide(v, m, mask)
		}
	})
	l.done()
}

// larger makes acc the larger of two vectors of float32 or, wide, of float64,
// or NaN if one is.
func (l *lang) larger(acc, v value, wide bool) {
	const unordered = 3
	most, compare, move := l.VMAXPS, l.VCMPPS, l.VMOVAPS
	if wide {
		most, compare, move = l.VMAXPD, l.VCMPPD, l.VMOVAPD
	}
	most(acc, v, acc) // the second source where either is NaN
	if l.lanes == 16 {
		k := l.K()
		compare(Imm(unordered), v, v, k)
		move(v, k, acc)
		return
	}
	nan := l.register(l.Context)
	compare(Imm(unordered), v, v, nan)
	l.VBLENDVPS(nan, v, acc, acc)
}

// each repeats body for each of rows, of which x is one and acc its number.
func (l *lang) each(name, doc string, body func(acc, x, n reg.GPVirtual)) {
	l.define(name, "func(acc *float64, x *float32, stride, rows, n int)",
		doc+" each of rows of n elements, stride elements apart.", "There is a row, and a number for each.")
	acc, x, stride, rows := l.param("acc"), l.param("x"), l.bytes("stride"), l.param("rows")
	n, left := l.param("n"), l.GP64()
	l.Label("each")
	l.MOVQ(n, left)
	body(acc, x, left)
	l.ADDQ(Imm(8), acc)
	l.ADDQ(stride, x)
	l.DECQ(rows)
	l.JNE(LabelRef("each"))
	l.done()
}

func (l *lang) sumEach() {
	l.each("SumEach", "adds to acc the sum in float64 of", func(acc, x, n reg.GPVirtual) {
		sum := l.tree(l.sum(x, n))
		l.VADDSD(Mem{Base: acc}, sum, sum)
		l.VMOVSD(sum, Mem{Base: acc})
	})
}

// maxEach also compares each vector with itself: only NaN differs.
func (l *lang) maxEach() {
	const unordered = 3
	l.each("MaxEach", "replaces acc by what is larger, and for good by NaN, in", func(acc, x, n reg.GPVirtual) {
		lowest, nan, all, wide := l.in(l.bits(0xff800000)), l.zero(), l.K(), l.lanes == 16
		var most []value
		for range short {
			most = append(most, l.copy(lowest))
		}
		if wide {
			l.KXORW(all, all, all)
		}
		l.loop(n, short, func(u int, c cursor) {
			v := l.get(x, c)
			if c.mask != nil { // zeros beyond the end must not win
				v = l.or(v, l.xor(lowest, l.only(lowest, c.mask)))
			}
			l.VMAXPS(most[u], v, most[u]) // the second source where v is NaN
			if wide {
				k := l.K()
				l.VCMPPS(Imm(unordered), v, v, k)
				l.KORW(k, all, all)
				return
			}
			m := l.register(l.Context)
			l.VCMPPS(Imm(unordered), v, v, m)
			l.VORPS(m, nan, nan)
		})
		for i := 1; i < short; i++ {
			l.VMAXPS(most[i], most[0], most[0])
		}
		v, old, found, quiet := l.across(most[0], l.VMAXPS, nil), l.XMM(), l.GP32(), l.GP64()
		l.VCVTSS2SD(v, v, v)
		l.VMOVSD(Mem{Base: acc}, old)
		l.VMAXSD(old, v, v) // the number there, if it is NaN
		l.VMOVSD(v, Mem{Base: acc})
		if wide {
			l.KMOVW(all, found)
		} else {
			l.VMOVMSKPS(nan, found)
		}
		l.TESTL(found, found)
		l.JEQ(LabelRef("numbers"))
		l.MOVQ(U64(0x7ff8<<48), quiet)
		l.MOVQ(quiet, Mem{Base: acc})
		l.Label("numbers")
	})
}

// mulFrom writes the last step of a softmax's gradient, and that of its
// logarithm's.
func (l *lang) mulFrom() {
	l.define("MulFrom", "func(y, a, b *float32, n int, c float32)", "is y = a*(b-c) for n elements.")
	y, a, b, c0 := l.param("y"), l.param("a"), l.param("b"), l.spread("c")
	l.loop(l.param("n"), short, func(_ int, c cursor) { l.put(l.mul(l.get(a, c), l.sub(l.get(b, c), c0)), y, c) })
	l.done()

	l.define("LessExp", "func(y, a, b *float32, n int, c float32)", "is y = b - e^a*c for n elements.")
	y, a, b, c0 = l.param("y"), l.param("a"), l.param("b"), l.spread("c")
	l.loop(l.param("n"), long, func(_ int, c cursor) { l.put(l.fnma(l.expOrZero(l.get(a, c)), c0, l.get(b, c)), y, c) })
	l.done()
}
