package gen

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var attentions = map[string]template{
	"causal_attention":      of(attention),
	"causal_attention_grad": of(attentionGrad),
}

// attentionBlock is the keys, or queries, whose probabilities a group holds at once.
// The matrix of all of them is never in memory.
const attentionBlock = 128

// heads are the parameters of an attention over qkv, with its random numbers, and the
// definitions that its kernels share. A group has a position of a head of a sample.
func (w *writer) heads(o ops.CausalSelfAttention, scalars int) ([]param, string) {
	qkv := w.node.In[0].Meta.Shape
	t, d := qkv[1], qkv[2]/3
	size := d / max(1, o.Heads)
	params := []param{number("t", t), number("d", d), number("heads", o.Heads), number("size", size)}
	factor := "1.0f"
	if o.P > 0 {
		params = append(append(params, inInts(scalars, "STEP"), inInts(scalars+1, "BASE")), key(o.Key())...)
		factor = fmt.Sprintf("(kept_f((u32)keyLo, (u32)keyHi, (u64)(((BASE[0] + b) * heads + head) * t * t + (q) * t + (k)), (u32)STEP[0], %s) ? %s : 0.0f)",
			float(o.P), float(1/(1-o.P)))
	}
	return params, fmt.Sprintf(`#undef QKV
#undef MASK
#define QKV(which, at) (QKVS + ((b * t + (at)) * 3 + which) * d + head * size)
#define MASK(q, k) %s
	SHARED f32 T[64], P[%d];
	i64 own = GROUP %% t, head = GROUP / t %% heads, b = GROUP / t / heads;
	f32 scale = %s;
`, factor, attentionBlock, float(1/math.Sqrt(float64(size))))
}

// attentionGroups is the number of positions of all heads and samples.
func (w *writer) attentionGroups(heads int) int {
	qkv := w.node.In[0].Meta.Shape
	return qkv[0] * qkv[1] * heads
}

func attention(w *writer, o ops.CausalSelfAttention) {
	params, shared := w.heads(o, 1)
	w.groups(w.attentionGroups(o.Heads), append(params, in(0, "QKVS"), out(0, "Y"), out(1, "LSE")), shared+fmt.Sprintf(`	GLOBAL const f32* Q = QKV(0, own);
	i64 seen = own + 1;
%[1]s	f32 lse = m + log_f(all);
	if (LANE == 0 && !STATUS[0]) LSE[GROUP] = lse;
	for (i64 e0 = 0; e0 < size; e0 += LANES) {
		i64 e = e0 + LANE;
		f32 sum = 0.0f;
		for (i64 k0 = 0; k0 <= own; k0 += %[2]d) {
			for (i64 k = k0 + LANE; k < k0 + %[2]d; k += LANES) P[k - k0] = k <= own ? exp_f(dot_f(Q, QKV(1, k), size) * scale - lse) * MASK(own, k) : 0.0f;
			BARRIER;
			i64 most = own + 1 - k0 < %[2]d ? own + 1 - k0 : %[2]d;
			if (e < size) for (i64 k = 0; k < most; k++) sum = FMA(P[k], QKV(2, k0 + k)[e], sum);
			BARRIER;
		}
		if (e < size && !STATUS[0]) Y[(b * t + own) * d + head * size + e] = sum;
	}
`, most("m", "seen", "dot_f(Q, QKV(1, e), size) * scale")+sum("all", "seen", "s += exp_f(dot_f(Q, QKV(1, e), size) * scale - m);"), attentionBlock))
}

// attentionGrad writes the gradients of queries in one kernel, and of keys and values in
// another.
func attentionGrad(w *writer, o ops.CausalSelfAttentionGrad) {
	of := ops.CausalSelfAttention(o)
	params, shared := w.heads(of, 4)
	operands := []param{in(0, "QKVS"), in(1, "Y"), in(2, "LSE"), in(3, "DY"), out(0, "DX")}
	const rows = `#undef ROW
#define ROW(of, at) (of + (b * t + (at)) * d + head * size)
`
	w.groups(w.attentionGroups(of.Heads), append(params, operands...), rows+shared+fmt.Sprintf(`	GLOBAL const f32* Q = QKV(0, own);
	GLOBAL const f32* D = ROW(DY, own);
	f32 lse = LSE[GROUP], dot = dot_f(D, ROW(Y, own), size);
	for (i64 e0 = 0; e0 < size; e0 += LANES) {
		i64 e = e0 + LANE;
		f32 sum = 0.0f;
		for (i64 k0 = 0; k0 <= own; k0 += %[1]d) {
			for (i64 k = k0 + LANE; k < k0 + %[1]d; k += LANES) P[k - k0] = k <= own ? exp_f(dot_f(Q, QKV(1, k), size) * scale - lse) * (dot_f(D, QKV(2, k), size) * MASK(own, k) - dot) * scale : 0.0f;
			BARRIER;
			i64 most = own + 1 - k0 < %[1]d ? own + 1 - k0 : %[1]d;
			if (e < size) for (i64 k = 0; k < most; k++) sum = FMA(P[k], QKV(1, k0 + k)[e], sum);
			BARRIER;
		}
		if (e < size && !STATUS[0]) DX[(b * t + own) * 3 * d + head * size + e] = sum;
	}
`, attentionBlock))
	w.groups(w.attentionGroups(of.Heads), append(params, operands...), rows+shared+fmt.Sprintf(`	SHARED f32 S[%[1]d];
	GLOBAL const f32* K = QKV(1, own);
	GLOBAL const f32* V = QKV(2, own);
	for (i64 e0 = 0; e0 < size; e0 += LANES) {
		i64 e = e0 + LANE;
		f32 dk = 0.0f, dv = 0.0f;
		for (i64 q0 = own; q0 < t; q0 += %[1]d) {
			for (i64 q = q0 + LANE; q < q0 + %[1]d; q += LANES) {
				f32 p = 0.0f, ds = 0.0f;
				if (q < t) {
					f32 mask = MASK(q, own);
					p = exp_f(dot_f(QKV(0, q), K, size) * scale - LSE[(b * heads + head) * t + q]);
					ds = p * (dot_f(ROW(DY, q), V, size) * mask - dot_f(ROW(DY, q), ROW(Y, q), size)) * scale;
					p = p * mask;
				}
				P[q - q0] = p;
				S[q - q0] = ds;
			}
			BARRIER;
			i64 most = t - q0 < %[1]d ? t - q0 : %[1]d;
			if (e < size) for (i64 q = 0; q < most; q++) {
				dv = FMA(P[q], ROW(DY, q0 + q)[e], dv);
				dk = FMA(S[q], QKV(0, q0 + q)[e], dk);
			}
			BARRIER;
		}
		if (e < size && !STATUS[0]) {
			DX[((b * t + own) * 3 + 1) * d + head * size + e] = dk;
			DX[((b * t + own) * 3 + 2) * d + head * size + e] = dv;
		}
	}
`, attentionBlock))
}
