package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowVectors is the most vectors of a narrow row. All stay in registers.
const narrowVectors = 4

// emitNarrow writes softmax, its logarithm and their gradients for rows that fit
// into a few vectors, for one width. The sums of a row are in float32, by a tree.
func emitNarrow(c *build.Context, s simd) {
	l := &lang{c, s, map[string]bool{}}
	l.narrow("NarrowSoftmax", "y = e^x / sum of e^x", "y x", "", func(r *narrowRow) {
		from, _ := r.below()
		for i, v := range from {
			from[i] = r.inside(i, l.expOrZero(v))
		}
		sum := r.every(from, l.VADDPS)
		for i, e := range from {
			r.put(i, l.div(e, sum))
		}
	})
	l.narrow("NarrowExpSums", "most = the largest of x and sums = sum of e^(x-most)", "x", "most sums", func(r *narrowRow) {
		var sums value
		from, most := r.below()
		for i, v := range from {
			e := r.inside(i, l.expOrZero(v))
			if i > 0 {
				e = l.add(sums, e)
			}
			sums = e
		}
		r.give("most", most.AsX())
		r.give("sums", l.across(sums, l.VADDPS, nil))
	})
	l.narrow("NarrowMinus", "y = x - most - logs", "y x", "most logs", func(r *narrowRow) {
		most, log := r.number("most"), r.number("logs")
		for i := range r.vectors {
			r.put(i, l.sub(l.sub(r.get("x", i), most), log))
		}
	})
	l.narrow("NarrowSoftmaxGrad", "y = a*(b - sum of a*b)", "y a b", "", func(r *narrowRow) {
		products := make([]value, 1)
		for i := range r.vectors {
			if i == 0 {
				products[0] = l.mul(r.get("a", i), r.get("b", i))
				continue
			}
			products[0] = l.fma(r.get("a", i), r.get("b", i), products[0])
		}
		sum := r.every(products, l.VADDPS)
		for i := range r.vectors {
			r.put(i, l.mul(r.get("a", i), l.sub(r.get("b", i), sum)))
		}
	})
	l.narrow("NarrowLogSoftmaxGrad", "y = b - e^a * sum of b", "y a b", "", func(r *narrowRow) {
		b := make([]value, r.vectors)
		for i := range b {
			b[i] = r.get("b", i)
		}
		sum := r.every(b, l.VADDPS)
		for i, v := range b {
			r.put(i, l.fnma(l.expOrZero(r.get("a", i)), sum, v))
		}
	})
}

// narrowRow is a row of a function: so many vectors, the last of which has a
// mask. outside has -Inf in the lanes beyond the end of a row and 0 in the
// others; elements read there are 0.
type narrowRow struct {
	*lang
	vectors int
	arrays  map[string]reg.GPVirtual
	mask    Op
	outside value
}

// narrow writes a function of rows, and of arrays that have a number for each.
func (l *lang) narrow(name, doc, rowsOf, numbers string, f func(r *narrowRow)) {
	names := strings.Fields(rowsOf + " " + numbers)
	l.define(name, "func("+strings.Join(names, ", ")+" *float32, rows, n int)", "is "+doc+" over each of the rows of n elements, which fit into",
		fmt.Sprintf("%d vectors. There is a row and an element. y may be what is read.", narrowVectors))
	arrays := map[string]reg.GPVirtual{}
	for _, array := range names {
		arrays[array] = l.param(array)
	}
	rows, n, bytes := l.param("rows"), l.param("n"), l.bytes("n")
	for vectors := narrowVectors; vectors > 0; vectors-- {
		size := fmt.Sprint(vectors)
		l.Label("vectors" + size)
		if vectors > 1 {
			l.CMPQ(n, Imm(uint64((vectors-1)*l.lanes)))
			l.JLE(LabelRef(fmt.Sprint("vectors", vectors-1)))
			l.SUBQ(Imm(uint64((vectors-1)*l.lanes)), n)
		}
		mask := l.masks(l.Context, n, 1)[0]
		lowest := l.in(l.bits(0xff800000))
		outside := l.xor(lowest, l.only(lowest, mask))
		l.Label("row" + size)
		f(&narrowRow{l, vectors, arrays, mask, outside})
		for _, array := range strings.Fields(rowsOf) {
			l.ADDQ(bytes, arrays[array])
		}
		for _, array := range strings.Fields(numbers) {
			l.ADDQ(Imm(4), arrays[array])
		}
		l.DECQ(rows)
		l.JNE(LabelRef("row" + size))
		l.done()
	}
}

// at is where vector i of an array is, and its mask.
func (r *narrowRow) at(array string, i int) (Mem, Op) {
	m := Mem{Base: r.arrays[array], Disp: 4 * r.lanes * i}
	if i < r.vectors-1 {
		return m, nil
	}
	return m, r.mask
}

func (r *narrowRow) get(array string, i int) value {
	m, mask := r.at(array, i)
	v := r.register(r.Context)
	r.load(r.Context, m, mask, v, v)
	return v
}

// put stores vector i of y.
func (r *narrowRow) put(i int, v value) {
	m, mask := r.at("y", i)
	var tmp value
	if mask != nil && r.lanes == 8 {
		tmp = r.register(r.Context)
	}
	r.store(r.Context, v, mask, tmp, m)
}

// number is a row's, in all lanes; give writes one.
func (r *narrowRow) number(array string) value {
	v := r.register(r.Context)
	r.broadcast(r.Context, Mem{Base: r.arrays[array]}, v)
	return v
}

func (r *narrowRow) give(array string, v reg.Register) {
	r.VMOVSS(v, Mem{Base: r.arrays[array]})
}

// inside is vector i with zeros beyond the end.
func (r *narrowRow) inside(i int, v value) value {
	if i < r.vectors-1 {
		return v
	}
	return r.only(v, r.mask)
}

// below is x less its largest.
func (r *narrowRow) below() (v []value, most value) {
	v = make([]value, r.vectors)
	for i := range v {
		v[i] = r.get("x", i)
	}
	last := r.vectors - 1
	v[last] = r.or(v[last], r.outside)
	most = r.every(v, r.VMAXPS)
	for i := range v {
		v[i] = r.sub(v[i], most)
	}
	return v, most
}

// every combines all lanes of vectors, and has the result in each.
func (r *narrowRow) every(v []value, combine func(ops ...Op)) value {
	all := v[0]
	for _, w := range v[1:] {
		sum := r.register(r.Context)
		combine(w, all, sum)
		all = sum
	}
	return r.lang.every(all, combine)
}

// every combines all lanes of v, and has the result in each.
func (l *lang) every(v value, combine func(ops ...Op)) value {
	r := l.copy(v)
	other := l.register(l.Context)
	for _, order := range []uint64{0x4e, 0xb1} {
		switch {
		case l.lanes == 16:
			l.VSHUFF32X4(Imm(order), r, r, other)
		case order == 0x4e:
			l.VPERM2F128(Imm(1), r, r, other)
		default:
			continue
		}
		combine(other, r, r)
	}
	for _, order := range []uint64{0x4e, 0xb1} {
		l.VPERMILPS(Imm(order), r, other)
		combine(other, r, r)
	}
	return r
}
