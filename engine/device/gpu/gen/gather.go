package gen

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var gathers = map[string]template{
	"gather":      func(w *writer, _ graph.Op) error { w.gather(); return nil },
	"scatter_add": func(w *writer, _ graph.Op) error { w.scatterAdd(); return nil },
	"dropout":     of(dropout),
}

func (w *writer) gather() {
	table, n := w.node.In[0].Meta.Shape, w.outElems(0)
	w.items(n, []param{site, in(0, "X"), inInts(1, "ID"), out(0, "Z"), number("rows", table[0]), number("d", table[1])}, `	i64 id = ID[i / d];
	if (id < 0 || id >= rows) { FAIL; return; }
	Z[i] = X[id * d + i % d];
`)
}

// scatterAdd gives each element of the table a lane, which adds its rows in their order.
func (w *writer) scatterAdd() {
	ids, table, n := w.elems(0), w.node.Out[0].Meta.Shape, w.outElems(0)
	w.items(n, []param{site, inInts(0, "ID"), in(1, "X"), out(0, "Z"), number("ids", ids), number("rows", table[0]), number("d", table[1])}, `	i64 r = i / d, k = i % d;
	f32 s = 0.0f;
	for (i64 j = 0; j < ids; j++) {
		i64 id = ID[j];
		if (id < 0 || id >= rows) { FAIL; return; }
		if (id == r) s += X[j * d + k];
	}
	Z[i] = s;
`)
}

// key is the two words of a stream of random numbers.
func key(k rng.Key) []param {
	return []param{number("keyLo", int(k.Lo)), number("keyHi", int(k.Hi))}
}

func dropout(w *writer, o ops.Dropout) {
	n := w.elems(0)
	size := w.node.In[0].Meta.Shape[1:].Elems()
	w.items(n, append([]param{in(0, "X"), inInts(1, "STEP"), inInts(2, "BASE"), out(0, "Z"), number("size", size)}, key(o.Key())...), `	Z[i] = kept_f((u32)keyLo, (u32)keyHi, (u64)(BASE[0] * size + i), (u32)STEP[0], `+float(o.P)+`) ? X[i] * `+float(1/(1-o.P))+` : 0.0f;
`)
}
