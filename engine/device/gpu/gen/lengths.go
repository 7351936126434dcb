package gen

import "github.com/berth-ml/berth/engine/ops"

var lengths = map[string]template{
	"pad_with":         of(padWith),
	"position_weights": of(positionWeights),
}

func padWith(w *writer, o ops.PadWith) {
	per := w.node.In[0].Meta.Shape[1:].Elems()
	w.items(w.outElems(0), []param{inInts(0, "X"), inInts(1, "LENGTHS"), outInts(0, "Z"), number("per", per), number("value", o.Value)},
		"\tZ[i] = i % per < LENGTHS[i / per] ? X[i] : (i32)value;\n")
}

func positionWeights(w *writer, o ops.PositionWeights) {
	weight := "1.0f"
	if o.Mean {
		weight = "1.0f / (f32)(length < per ? length : per)"
	}
	w.items(w.outElems(0), []param{inInts(0, "LENGTHS"), out(0, "Z"), number("per", o.T)},
		"\ti64 length = LENGTHS[i / per];\n\tZ[i] = i % per < length ? "+weight+" : 0.0f;\n")
}
