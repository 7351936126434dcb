package gen

import "github.com/berth-ml/berth/engine/ops"

// A token is drawn with whole numbers, so that sums are exact in any order: the weight of a
// token is e^((logit-best)/temperature) 2^46, rounded down. On the host weights are float64:
// it draws another token only where the random number is within about 10^-9 of the border
// between two.

// sample finds the best tokens, then all weights, and then draws.
func sample(w *writer, o ops.Sample) {
	rows, cols := w.rows()
	count := o.Count(cols)
	best := up(rows, 16) * 4 // bytes; then come the weights
	w.scratch = int64(best) + int64(rows)*int64(count)*8
	x, shaping := in(0, "X"), in(2, "SHAPING")
	bests, weights := param{c: "GLOBAL i32* BEST", arg: Arg{Role: Scratch}}, param{c: "GLOBAL u64* W", arg: Arg{Role: Scratch, Value: int64(best)}}
	sizes := []param{number("cols", cols), number("count", count)}
	w.groups(rows, append([]param{x, bests}, sizes...), sampleBest)
	w.items(rows*count, append([]param{x, shaping, bests, weights}, sizes...), sampleWeigh)
	w.groups(rows, append([]param{x, inInts(1, "AT"), shaping, inInts(3, "CHOICE"), bests, weights, outInts(0, "Z")}, sizes...), sampleDraw)
}

// sampleBest finds the first of the largest logits of row GROUP, or -1-e where e is the first
// for which none can be drawn.
const sampleBest = `	SHARED i64 B[64], BAD[64];
	i64 from = GROUP * cols;
	for (i64 v = LANE; v < 64; v += LANES) {
		i64 best = -1, bad = count;
		for (i64 e = v; e < count; e += 64) {
			f32 x = X[from + e];
			if (bad == count && (x != x || x == INF_F)) bad = e;
			if (best < 0 || x > X[from + best]) best = e;
		}
		B[v] = best;
		BAD[v] = bad;
	}
	BARRIER;
	if (LANE == 0) {
		i64 best = B[0], bad = BAD[0];
		for (i64 v = 1; v < 64 && v < count; v++) {
			f32 x = X[from + B[v]], y = X[from + best];
			if (x > y || (x == y && B[v] < best)) best = B[v];
			if (BAD[v] < bad) bad = BAD[v];
		}
		if (X[from + best] == -INF_F && bad == count) bad = 0;
		if (!STATUS[0]) BEST[GROUP] = (i32)(bad < count ? -1 - bad : best);
	}
`

const sampleWeigh = `	i64 r = i / count;
	f32 t = SHAPING[2 * r];
	W[i] = t != 0.0f && BEST[r] >= 0 ? weight_f(X[r * cols + BEST[r]], X[r * cols + i % count], t) : 0;
`

// sampleSum sums term over the tokens that are ranked at limit or before, to all lanes.
func sampleSum(to, term, limit string) string {
	return `	for (i64 v = LANE; v < 64; v += LANES) {
		u64 s = 0;
		for (i64 e = v; e < count; e += 64) if (RANKED(e) >= ` + limit + `) s += ` + term + `;
		S[v] = s;
	}
	BARRIER;
	` + to + ` = 0;
	for (i64 v = 0; v < 64; v++) ` + to + ` += S[v];
	BARRIER;
`
}

// sampleLast finds the last token that is left: the first one, by rank, with which the sum of
// term reaches wanted. Its rank is the largest limit at which the sum does, found bit by bit.
// Unless wish is true, last stays.
func sampleLast(wish, term, wanted string) string {
	return `	wanted = ` + wanted + `;
	if (` + wish + `) last = 0;
	for (i64 step = 0; step < (` + wish + ` ? 32 + bits : 0); step++) {
		u64 limit = last | (u64)1 << (step < 32 ? 63 - step : bits + 31 - step);
` + sampleSum("sum", term, "limit") + `		if (sum >= wanted) last = limit;
	}
`
}

// sampleDraw draws a token for row GROUP. RANKED(e) is larger for tokens that rank before
// others; it is never 0.
var sampleDraw = `#undef RANKED
#define RANKED(e) ((u64)order_f(X[from + (e)]) << 32 | (u64)(count - 1 - (e)))
	SHARED u64 S[64];
	i64 from = GROUP * cols, bits = 0;
	while (count > (i64)1 << bits) bits++;
	W += GROUP * count;
	SHAPING += 2 * GROUP;
	CHOICE += 3 * GROUP;
	f32 top = SHAPING[1];
	i32 greedy = SHAPING[0] == 0.0f || BEST[GROUP] < 0, few = !greedy && CHOICE[0] > 0 && CHOICE[0] < count, part = !greedy && top < 1.0f;
	u64 last = 0, sum = 0, wanted = 0, total = 0, kept = 0;
` + sampleLast("few", "1", "(u64)CHOICE[0]") + sampleSum("total", "W[e]", "last") + sampleLast("part", "W[e]", "share_f(top, total)") +
	sampleSum("kept", "W[e]", "last") + `	u32 c[4];
	philox_f((u32)CHOICE[1], (u32)CHOICE[2], 0, (u32)AT[GROUP], c);
	u64 point = high_u(((u64)c[0] << 32 | c[1]) >> 11 << 11, kept);
	i64 each = (count + 63) / 64;
	for (i64 v = LANE; v < 64; v += LANES) {
		u64 s = 0;
		for (i64 e = v * each; e < (v + 1) * each && e < count; e++) if (RANKED(e) >= last) s += W[e];
		S[v] = s;
	}
	BARRIER;
	if (LANE == 0 && !STATUS[0]) {
		i64 e = BEST[GROUP];
		if (!greedy) {
			u64 s = 0;
			i64 v = 0;
			while (v < 63 && s + S[v] <= point) s += S[v++];
			for (i64 k = v * each; k < count; k++) if (RANKED(k) >= last) {
				e = k;
				s += W[k];
				if (s > point) break;
			}
		}
		Z[GROUP] = (i32)e;
	}
`
