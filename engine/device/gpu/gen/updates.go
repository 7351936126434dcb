package gen

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var updates = map[string]template{
	"sgd":      of(func(w *writer, o ops.SGD) { w.update(o) }),
	"adam":     of(func(w *writer, o ops.Adam) { w.update(o) }),
	"lion":     of(func(w *writer, o ops.Lion) { w.update(o) }),
	"averaged": of(func(w *writer, o ops.Averaged) { w.update(o) }),
	"clip_factor": of(func(w *writer, o ops.ClipFactor) {
		w.norm("f32 r = "+float(o.MaxNorm)+" / (norm + 1e-6f); Z[0] = r < 1.0f ? r : 1.0f;", o.Scale)
	}),
	"grad_norm": of(func(w *writer, o ops.GradNorm) { w.norm("Z[0] = norm;", o.Scale) }),
	"increment": of(func(w *writer, _ ops.Increment) {
		w.items(1, []param{inInts(0, "X"), outInts(0, "Z")}, "\tZ[0] = X[0] + 1;\n")
	}),
	"ring_write":    of(ringWrite),
	"learning_rate": of(learningRate),
	"ranged":        of(ranged),
}

// factor adds the clip factor to a kernel's parameters, and gives its expression.
func (w *writer) factor(clip bool, params []param) ([]param, string) {
	if !clip {
		return params, ""
	}
	return append(params, in(len(w.node.In)-1, "CLIP")), " * CLIP[0]"
}

func sgd(w *writer, o ops.SGD) ([]param, string) {
	params, clip := w.factor(o.Clip, []param{in(0, "W"), in(1, "G"), in(2, "LR"), out(0, "Z")})
	body := "\tf32 w = W[i], d = FMA(" + float(o.WeightDecay) + ", w, G[i] * " + float(o.Scale) + clip + ");\n"
	if o.Momentum > 0 {
		params = append(params, in(3, "V"), out(1, "V2"))
		body += "\tf32 v = FMA(" + float(o.Momentum) + ", V[i], d);\n\tV2[i] = v;\n"
		if o.Nesterov {
			body += "\td = FMA(" + float(o.Momentum) + ", v, d);\n"
		} else {
			body += "\td = v;\n"
		}
	}
	return params, body + "\tZ[i] = FMA(-LR[0], d, w);\n"
}

// lacking is the text of 1 - beta^t, for a whole number t. Powers of a beta that is near 1 would
// leave few bits of it.
func lacking(beta float64) string {
	if beta == 0 {
		return "1.0f"
	}
	log := math.Log(beta)
	high := float64(float32(log))
	return "lacking_f(t, " + float(high) + ", " + float(log-high) + ")"
}

func adam(w *writer, o ops.Adam) ([]param, string) {
	params, clip := w.factor(o.Clip, []param{in(0, "W"), in(1, "G"), in(2, "M"), in(3, "V"), inInts(4, "STEP"), in(5, "LR"),
		out(0, "Z"), out(1, "M2"), out(2, "V2")})
	decay := "\td = FMA(" + float(o.WeightDecay) + ", w, d);\n"
	if o.Decoupled {
		decay = "\tw = FMA(-(LR[0] * " + float(o.WeightDecay) + "), w, w);\n"
	}
	return params, fmt.Sprintf(`	f32 t = (f32)(STEP[0] + 1);
	f32 w = W[i], d = G[i] * %[3]s%[4]s;
%[5]s	f32 m = FMA(%[1]s, M[i], %[6]s * d), v = FMA(%[2]s, V[i], %[7]s * d * d);
	M2[i] = m; V2[i] = v;
	Z[i] = w - LR[0] / %[9]s * m / (SQRT(v) / SQRT(%[10]s) + %[8]s);
`, float(o.Beta1), float(o.Beta2), float(o.Scale), clip, decay, float(1-o.Beta1), float(1-o.Beta2), float(o.Eps), lacking(o.Beta1), lacking(o.Beta2))
}

func lion(w *writer, o ops.Lion) ([]param, string) {
	params, clip := w.factor(o.Clip, []param{in(0, "W"), in(1, "G"), in(2, "M"), in(3, "LR"), out(0, "Z"), out(1, "M2")})
	return params, fmt.Sprintf(`	f32 w = W[i], m = M[i], d = G[i] * %[1]s%[2]s;
	f32 c = FMA(%[3]s, m, %[4]s * d);
	M2[i] = FMA(%[5]s, m, %[6]s * d);
	c = c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : c;
	Z[i] = FMA(-(LR[0] * %[7]s), w, w) - LR[0] * c;
`, float(o.Scale), clip, float(o.Beta1), float(1-o.Beta1), float(o.Beta2), float(1-o.Beta2), float(o.WeightDecay))
}

// mostSummed is the most sums of squares that a kernel reads, as [mostSideBySide] is the most
// loops.
const mostSummed = 64

// norm computes the norm from the sums of squares that are the inputs. They are added up
// one after another, by several kernels where there are many.
func (w *writer) norm(c string, scale float64) {
	sum, params := "0.0f", []param(nil)
	if len(w.node.In) > mostSummed {
		w.scratch = 4
		params = []param{scratchAt(0, "S")}
	}
	for i := range w.node.In {
		if i > 0 && i%mostSummed == 0 {
			w.items(1, params, "\tS[0] = "+sum+";\n")
			sum, params = "S[0]", []param{scratchAt(0, "S")}
		}
		name := fmt.Sprint("X", i%mostSummed)
		params = append(params, in(i, name))
		sum += " + " + name + "[0]"
	}
	w.items(1, append(params, out(0, "Z")), "\tf32 norm = "+float(scale)+" * SQRT("+sum+"); "+c+"\n")
}

func ringWrite(w *writer, o ops.RingWrite) {
	w.items(w.outElems(0), []param{in(0, "X"), inInts(1, "AT"), in(2, "V"), out(0, "Z"), number("x", w.elems(2))},
		"\tZ[i] = i / x == (i64)AT[0] % (n / x) ? V[i % x] * "+float(o.Scale)+" : X[i];\n")
}
