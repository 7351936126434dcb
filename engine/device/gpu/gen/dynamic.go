package gen

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Elements are numbered in three steps: each group counts those of its block, the counts are summed
// up, and each group goes through its block again, now with the number of elements before it. A
// virtual lane has neighbouring elements, so that numbers ascend.

var dynamics = map[string]template{
	"nonzero": of(nonzero),
	"unique":  of(unique),
}

const (
	blockElems = 1024 // elements of a group: 16 for each of 64 virtual lanes
	sumElems   = 4096 // numbers that a group sums up: 64 for each of them
	digits     = 16   // values of the 4 bits by which a pass of the sort orders
)

// blocks is the groups for n elements.
func blocks(n int) int { return up(n, blockElems) / blockElems }

// The loops over virtual lanes v, and over the elements e of one.
const (
	eachLane = "\tfor (i64 v = LANE; v < 64; v += LANES) {\n"
	eachOwn  = "for (i64 e = GROUP * 1024 + v * 16, end = e + 16; e < end && e < n; e++)"
)

// place is memory that several kernels use, under names of their own.
type place Arg

// as is a parameter for the place.
func (p place) as(typ, name string) param {
	return param{c: "GLOBAL " + typ + "* " + name, arg: Arg(p)}
}

// output is the place of output i.
func output(i int) place { return place{Role: Out, Index: i} }

// room is a place for n words in the scratch.
func (w *writer) room(n int) place {
	p := place{Role: Scratch, Value: w.scratch}
	w.scratch += int64(up(n, 16)) * 4
	return p
}

// sumUp makes each of n numbers the sum of those before it. The first copies words of total become the sum of all.
func (w *writer) sumUp(numbers place, n int, total place, copies int) {
	groups := max(1, up(n, sumElems)/sumElems)
	if groups == 1 {
		w.sumGroups(1, numbers, n, total, copies)
		return
	}
	sums := w.room(groups)
	w.sumGroups(groups, numbers, n, sums, 1)
	w.sumUp(sums, groups, total, copies)
	w.items(n, []param{numbers.as("i32", "C"), sums.as("const i32", "S")}, "\tC[i] += S[i / 4096];\n")
}

// sumGroups is sumUp within each group, whose sum goes to sums.
func (w *writer) sumGroups(groups int, numbers place, n int, sums place, copies int) {
	const own = "for (i64 e = GROUP * 4096 + v * 64, end = e + 64; e < end && e < n; e++)"
	w.groups(groups, []param{numbers.as("i32", "C"), sums.as("i32", "S"), number("n", n), number("copies", copies)}, `	SHARED i32 T[64];
`+eachLane+`		i32 s = 0;
		`+own+` s += C[e];
		T[v] = s;
	}
	BARRIER;
`+eachLane+`		i32 s = 0;
		for (i64 u = 0; u < v; u++) s += T[u];
		`+own+` {
			i32 c = C[e];
			if (!STATUS[0]) C[e] = s;
			s += c;
		}
		if (v == 63 && !STATUS[0]) for (i64 k = 0; k < copies; k++) S[GROUP + k] = s;
	}
`)
}

// countBlock counts the elements of each lane for which flag is true into T.
func countBlock(flag string) string {
	return "\tSHARED i32 T[64];\n" + eachLane + "\t\ti32 s = 0;\n\t\t" + eachOwn + " if (" + flag + ") s++;\n\t\tT[v] = s;\n\t}\n\tBARRIER;\n"
}

// numbered runs each for each of n elements e, with c, whether its flag is true, and k, the number of flags before
// it. The first copies words of total have become the number of all flags then.
func (w *writer) numbered(n int, params []param, flag string, total place, copies int, more []param, each string) {
	counts := w.room(blocks(n))
	params = append(params, counts.as("i32", "C"), number("n", n))
	w.groups(blocks(n), params, countBlock(flag)+`	if (LANE == 0 && !STATUS[0]) {
		i32 s = 0;
		for (i64 v = 0; v < 64; v++) s += T[v];
		C[GROUP] = s;
	}
`)
	w.sumUp(counts, blocks(n), total, copies)
	w.groups(blocks(n), append(params, more...), countBlock(flag)+eachLane+`		i32 k = C[GROUP];
		for (i64 u = 0; u < v; u++) k += T[u];
		`+eachOwn+` {
			i32 c = `+flag+`;
			if (!STATUS[0]) {
`+each+`			}
			k += c;
		}
	}
`)
}

// nonzero writes the places of flagged elements from the first row on, and zeros for the others behind them.
func nonzero(w *writer, _ ops.Nonzero) {
	w.scratch = 0
	x, mask := w.node.In[0].Meta, -1 // the bits that make an element other than 0
	if x.DType == shape.Float32 {
		mask = math.MaxInt32 // the sign is none of them
	}
	rank := x.Shape.Rank()
	more := []param{outInts(0, "Z"), outInts(1, "N"), number("rank", rank)}
	each := "\t\t\t\tu32 at = c ? (u32)e : 0;\n\t\t\t\ti64 row = (c ? k : N[0] + (e - k)) * rank;\n"
	for axis := rank - 1; axis > 0; axis-- {
		d := fmt.Sprint("d", axis)
		more = append(more, number(d, x.Shape[axis]))
		each += fmt.Sprintf("\t\t\t\tZ[row + %d] = (i32)(at %% (u32)%s);\n\t\t\t\tat /= (u32)%[2]s;\n", axis, d)
	}
	if rank > 0 {
		each += "\t\t\t\tZ[row] = (i32)at;\n"
	}
	w.numbered(x.Elems(), []param{inWords(0, "X"), number("mask", mask)}, "((X[e] & (i32)mask) != 0)", output(1), 1, more, each)
}

// elementKeys are the C of the key of an element's bits b, which is larger for a larger element, the same for 0 and -0,
// and the largest for NaN; and of the bits of a key b. Arithmetic of floats would take denormals for 0 on some devices.
var elementKeys = map[shape.DType]struct{ key, element string }{
	shape.Int32: {"b", "b"},
	shape.Float32: {"(b & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : b < 0 ? -(b & 0x7fffffff) : b",
		"b == 0x7fffffff ? 0x7fc00000 : b < 0 ? (i32)((u32)-b | 0x80000000u) : b"},
}

// unique sorts keys, and finds where each value begins. The places of these are in the values' memory until the
// values come.
func unique(w *writer, _ ops.Unique) {
	w.scratch = 0
	n, of := w.elems(0), elementKeys[w.node.In[0].Meta.DType]
	values, counts, index, total := output(0), output(1), output(2), output(3)
	keys, order := w.room(n), w.room(n)
	w.items(n, []param{inWords(0, "X"), keys.as("u32", "K"), order.as("i32", "O")},
		"\ti32 b = X[i];\n\tK[i] = (u32)("+of.key+") ^ 0x80000000u;\n\tO[i] = (i32)i;\n")
	if n > 0 {
		w.sort(n, keys, order, values, counts)
	}
	w.numbered(n, []param{keys.as("const u32", "K")}, "(e == 0 || K[e] != K[e - 1])", total, 2,
		[]param{order.as("const i32", "O"), values.as("i32", "V"), index.as("i32", "I")},
		"\t\t\t\tif (c) V[k] = (i32)e;\n\t\t\t\tI[O[e]] = k + c - 1;\n")
	w.items(n, []param{values.as("const i32", "V"), counts.as("i32", "C"), total.as("const i32", "N")},
		"\ti64 m = N[0];\n\tC[i] = i >= m ? 0 : (i + 1 < m ? V[i + 1] : (i32)n) - V[i];\n")
	w.items(n, []param{keys.as("const u32", "K"), values.as("i32", "V"), total.as("const i32", "N")},
		"\tif (i >= N[0]) { V[i] = 0; return; }\n\ti32 b = (i32)(K[V[i]] ^ 0x80000000u);\n\tV[i] = "+of.element+";\n")
}

// digitCounts counts the digits of each lane into T: those of one digit are neighbours.
const digitCounts = "\tSHARED i32 T[1024];\n" + eachLane + `		for (i64 d = 0; d < 16; d++) T[d * 64 + v] = 0;
		` + eachOwn + ` T[(K[e] >> shift & 15) * 64 + v]++;
	}
	BARRIER;
`

// sort sorts n keys, and their elements' order with them, so that equal ones keep theirs: a pass for each digit,
// from the lowest on. The other two places are as large; every second pass writes to them.
func (w *writer) sort(n int, keys, order, otherKeys, otherOrder place) {
	all := blocks(n)
	counts := w.room(digits * all)
	scratch := w.scratch
	for shift := 0; shift < 32; shift += 4 {
		w.scratch = scratch // each pass sums up in the same place
		params := []param{keys.as("const u32", "K"), counts.as("i32", "C"), number("n", n), number("blocks", all), number("shift", shift)}
		w.groups(all, params, digitCounts+`	for (i64 d = LANE; d < 16; d += LANES) {
		i32 s = 0;
		for (i64 v = 0; v < 64; v++) s += T[d * 64 + v];
		if (!STATUS[0]) C[d * blocks + GROUP] = s;
	}
`)
		w.sumUp(counts, digits*all, counts, 0)
		more := []param{order.as("const i32", "O"), otherKeys.as("u32", "L"), otherOrder.as("i32", "P")}
		w.groups(all, append(params, more...), digitCounts+`	for (i64 d = LANE; d < 16; d += LANES) {
		i32 s = C[d * blocks + GROUP];
		for (i64 v = 0; v < 64; v++) {
			i32 c = T[d * 64 + v];
			T[d * 64 + v] = s;
			s += c;
		}
	}
	BARRIER;
`+eachLane+"\t\t"+eachOwn+` {
			i64 to = T[(K[e] >> shift & 15) * 64 + v]++;
			if (!STATUS[0]) {
				L[to] = K[e];
				P[to] = O[e];
			}
		}
	}
`)
		keys, order, otherKeys, otherOrder = otherKeys, otherOrder, keys, order
	}
}
