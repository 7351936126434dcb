package gen

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/rng"
)

var gathers = map[string]template{
	"gather":      func(w *writer, _ graph.Op) error { w.gather(); return nil },
	"scatter_add": func(w *writer, _ graph.Op) error { w.scatterAdd(); return nil },
}

func (w *writer) gather() {
	table := w.node.In[0].Meta.Shape
	params, store := w.result()
	w.items(w.outElems(0), append(params, site, in(0, "X"), inInts(1, "ID"), number("rows", table[0]), number("d", table[1])), `	i64 id = ID[i / d];
	if (id < 0 || id >= rows) { FAIL; return; }
	`+store("i", "X[id * d + i % d]")+`
`)
}

// scatterAdd gives each element of the table a lane, which adds its rows in their order.
func (w *writer) scatterAdd() {
	ids, table := w.elems(0), w.node.Out[0].Meta.Shape
	params, store := w.result()
	w.items(w.outElems(0), append(params, site, inInts(0, "ID"), in(1, "X"), number("ids", ids), number("rows", table[0]), number("d", table[1])), `	i64 r = i / d, k = i % d;
	f32 s = 0.0f;
	for (i64 j = 0; j < ids; j++) {
		i64 id = ID[j];
		if (id < 0 || id >= rows) { FAIL; return; }
		if (id == r) s += X[j * d + k];
	}
	`+store("i", "s")+`
`)
}

// key is the two words of a stream of random numbers.
func key(k rng.Key) []param {
	return []param{number("keyLo", int(k.Lo)), number("keyHi", int(k.Hi))}
}
