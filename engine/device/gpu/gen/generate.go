package gen

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var generators = map[string]template{
	"cached_attention": of(cachedAttention),
	"cache_write":      of(cacheWrite),
	"state_write":      of(stateWrite),
	"positions":        of(positions),
	"last_row":         of(lastRow),
	"sample":           of(sample),

	"repetition_penalty": of(repetitionPenalty),
	"seen_write":         of(seenWrite),
}

// extent is the text that reads the extent of sequence b: its chunk has count of rows rows,
// from position first of cached ones on, and its place is one of places. Where that cannot
// be, count and place are 0.
const extent = `	i64 first = EXTENT[3 * b], count = EXTENT[3 * b + 1], place = EXTENT[3 * b + 2];
	if (count < 1 || count > rows || first < 0 || first + count > cached || place < 0 || place >= places) { FAIL; count = 0; place = 0; }
`

// anywhere is the number of positions and of places of ops without a cache.
const anywhere = math.MaxInt32

// attentionBlock is the keys whose probabilities a group holds at once.
const attentionBlock = 128

// cachedAttention goes over cached rows and those of the chunk. A group has one row of a
// head of a sequence; its sums are as in attention.
func cachedAttention(w *writer, o ops.CachedAttention) {
	qkv, cache := w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape
	whole := o.Whole()
	size := whole.Size(qkv[2])
	params := []param{site, in(0, "QKVS"), in(1, "KEYS"), in(2, "VALUES"), inInts(3, "EXTENT"), out(0, "Y"),
		number("rows", qkv[1]), number("places", cache[0]), number("cached", cache[1]), number("width", qkv[2]), number("heads", o.Heads), number("groups", whole.Groups()), number("size", size)}
	window, dot, rounded := "0", "dot_f(Q, SEEN(1, KEYS, ", "("
	if o.BF16 { // rounds cached rows again, to what they are
		dot, rounded = "both_rounded_dot_f(Q, SEEN(1, KEYS, ", "bf16_f("
	}
	if o.Window > 0 {
		params = append(params, number("window", o.Window))
		window = "first + row + 1 > window ? first + row + 1 - window : 0"
	}
	w.groups(qkv[0]*qkv[1]*o.Heads, params, `#undef SEEN
#define SEEN(which, cache, k) (from + (k) < first ? cache + ((place * cached + from + (k)) * groups + kv) * size : QKVS + (b * rows + from + (k) - first) * width + (heads + (which - 1) * groups + kv) * size)
	SHARED f32 T[64], P[`+fmt.Sprint(attentionBlock)+`];
	i64 row = GROUP % rows, head = GROUP / rows % heads, b = GROUP / rows / heads, kv = head / (heads / groups);
`+extent+`	GLOBAL const f32* Q = QKVS + (b * rows + row) * width + head * size;
	i64 from = `+window+`, seen = row < count ? first + row + 1 - from : 0;
	f32 scale = `+float(1/math.Sqrt(float64(size)))+`;
`+most("m", "seen", dot+"e), size) * scale")+sum("all", "seen", "s += exp_f("+dot+"e), size) * scale - m);")+
		fmt.Sprintf(`	f32 lse = m + log_f(all);
	for (i64 e0 = 0; e0 < size; e0 += LANES) {
		i64 e = e0 + LANE;
		f32 y = 0.0f;
		for (i64 k0 = 0; k0 < seen; k0 += %[1]d) {
			i64 block = seen - k0 < %[1]d ? seen - k0 : %[1]d;
			for (i64 k = LANE; k < block; k += LANES) P[k] = %[2]sexp_f(%[3]sk0 + k), size) * scale - lse));
			BARRIER;
			if (e < size) for (i64 k = 0; k < block; k++) y = FMA(P[k], %[2]sSEEN(2, VALUES, k0 + k)[e]), y);
			BARRIER;
		}
		if (e < size && !STATUS[0]) Y[((b * rows + row) * heads + head) * size + e] = y;
	}
`, attentionBlock, rounded, dot))
}

func cacheWrite(w *writer, o ops.CacheWrite) {
	w.keep(0, 0)
	cache, qkv := w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape
	d, x := cache[2], "QKVS[(b * rows + row) * width + at + i % d]"
	if o.BF16 {
		x = "bf16_f(" + x + ")"
	}
	w.items(qkv[0]*qkv[1]*d, []param{site, in(1, "QKVS"), inInts(2, "EXTENT"), out(0, "Z"), number("rows", qkv[1]), number("places", cache[0]), number("cached", cache[1]), number("d", d), number("width", qkv[2]), number("at", o.From(qkv[2], d))},
		"\ti64 row = i / d % rows, b = i / d / rows;\n"+extent+"\tif (row < count) Z[(place * cached + first + row) * d + i % d] = "+x+";\n")
}

func stateWrite(w *writer, _ ops.StateWrite) {
	w.keep(0, 0)
	cache, x := w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape
	w.items(x[0]*x[2], []param{site, in(1, "X"), inInts(2, "EXTENT"), out(0, "Z"), number("rows", x[1]), number("places", cache[0]), number("d", x[2]), number("cached", anywhere)},
		"\ti64 b = i / d;\n"+extent+"\tif (count > 0) Z[place * d + i % d] = X[(b * rows + count - 1) * d + i % d];\n")
}

func positions(w *writer, o ops.Positions) {
	w.items(w.outElems(0), []param{site, inInts(0, "EXTENT"), outInts(0, "Z"), number("rows", o.T), number("places", anywhere), number("cached", anywhere)},
		"\ti64 b = i / rows;\n"+extent+"\tZ[i] = i % rows < count ? (i32)(first + i % rows) : 0;\n")
}

func lastRow(w *writer, _ ops.LastRow) {
	x := w.node.In[0].Meta.Shape
	w.items(w.outElems(0), []param{site, in(0, "X"), inInts(1, "EXTENT"), out(0, "Z"), number("rows", x[1]), number("places", anywhere), number("d", x[2]), number("cached", anywhere)},
		"\ti64 b = i / d;\n"+extent+"\tif (count > 0) Z[i] = X[(b * rows + count - 1) * d + i % d];\n")
}

// seen is the text that sets seen: whether sequence b has token i % v.
const seen = `	i64 b = i / v;
` + extent + `	i32 seen = count > 0 && first > 0 && SEEN[place * v + i % v] != 0;
	for (i64 t = 0; t < count; t++) seen |= TOKENS[b * rows + t] == (i32)(i % v);
`

// repetitionPenalty has a lane for each logit, which looks for its token in the chunk.
func repetitionPenalty(w *writer, _ ops.RepetitionPenalty) {
	before, tokens := w.node.In[1].Meta.Shape, w.node.In[2].Meta.Shape
	w.items(w.outElems(0), []param{site, in(0, "X"), inInts(1, "SEEN"), inInts(2, "TOKENS"), inInts(3, "EXTENT"), in(4, "PENALTY"), out(0, "Z"),
		number("v", before[1]), number("rows", tokens[1]), number("places", before[0]), number("cached", anywhere)}, seen+`	f32 x = X[i], penalty = PENALTY[b];
	if (seen && penalty != 1.0f) x = x > 0.0f ? x / penalty : x * penalty;
	Z[i] = x;
`)
}

// seenWrite has a lane for each token that there is, of each sequence.
func seenWrite(w *writer, _ ops.SeenWrite) {
	w.keep(0, 0)
	before, tokens := w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape
	w.items(tokens[0]*before[1], []param{site, inInts(0, "SEEN"), inInts(1, "TOKENS"), inInts(2, "EXTENT"), outInts(0, "Z"),
		number("v", before[1]), number("rows", tokens[1]), number("places", before[0]), number("cached", anywhere)}, seen+"\tif (count > 0) Z[place * v + i % v] = seen;\n")
}
