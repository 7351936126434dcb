package gen

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

var gathers = map[string]template{
	"gather":      func(w *writer, _ graph.Op) error { w.gather(); return nil },
	"scatter_add": func(w *writer, _ graph.Op) error { w.scatterAdd(); return nil },
}

func (w *writer) gather() {
	table := w.node.In[0].Meta.Shape
	params, store := w.result()
	x, element := in(0, "X"), "X[id * d + i % d]"
	switch w.node.In[0].Meta.DType {
	case shape.BFloat16:
		x, element = inHalves(0, "X"), "AS_FLOAT((i32)((u32)X[id * d + i % d] << 16))"
	case shape.Int8Block:
		x, element = inBytes(0, "X"), "int8_f(X + id * pitch, i % d)"
		params = append(params, number("pitch", shape.BlocksBytes(table[1])))
	}
	w.items(w.outElems(0), append(params, site, x, inInts(1, "ID"), number("rows", table[0]), number("d", table[1])), `	i64 id = ID[i / d];
	if (id < 0 || id >= rows) { FAIL; return; }
	`+store("i", element)+`
`)
}

// scatterAdd links the positions of equal ids in their order, from the first of each id on. Then
// each element of the table has a lane, which adds the rows of its id.
func (w *writer) scatterAdd() {
	ids, table := w.elems(0), w.node.Out[0].Meta.Shape
	rows := table[0]
	w.scratch = int64(rows+ids) * 4
	first, next := param{c: "GLOBAL i32* FIRST", arg: Arg{Role: Scratch}}, param{c: "GLOBAL i32* NEXT", arg: Arg{Role: Scratch, Value: int64(rows) * 4}}
	w.items(rows, []param{first}, "\tFIRST[i] = -1;\n")
	w.items(ids, []param{site, inInts(0, "ID"), first, next, number("rows", rows)}, `	i32 id = ID[i];
	if (id < 0 || id >= rows) { FAIL; return; }
	i64 before = i - 1, after = i + 1;
	while (before >= 0 && ID[before] != id) before--;
	while (after < n && ID[after] != id) after++;
	if (before < 0) FIRST[id] = (i32)i;
	NEXT[i] = after < n ? (i32)after : -1;
`)
	params, store := w.result()
	w.items(w.outElems(0), append(params, in(1, "X"), first, next, number("d", table[1])), `	f32 s = 0.0f;
	for (i64 j = FIRST[i / d]; j >= 0; j = NEXT[j]) s += X[j * d + i % d];
	`+store("i", "s")+`
`)
}

// key is the two words of a stream of random numbers.
func key(k rng.Key) []param {
	return []param{number("keyLo", int(k.Lo)), number("keyHi", int(k.Hi))}
}
