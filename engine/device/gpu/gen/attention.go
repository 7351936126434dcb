package gen

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-ml/berth/engine/ops"
)

var attentions = map[string]template{
	"causal_attention":      of(attention),
	"causal_attention_grad": of(attentionGrad),
}

// A group of 64 lanes has a block of positions of a head of a sample. It goes over the
// positions of the other side 64 at a time, one for each lane; the matrix of all
// probabilities is never in memory. Sums over the other side are as those of a group's
// virtual lanes, or go up one by one, so their bits do not depend on blocks.

// blockOf is the positions of a block for heads of a size, so that two tiles of them fit
// the local memory that every device has.
func blockOf(size int) int {
	block := 16
	for block > 4 && size*block > 128*16 {
		block /= 2
	}
	return block
}

// attentionText begins each kernel. X[r] of [dots] is for position first + r of the block.
const attentionText = `#undef QKV
#undef ROW
#undef MASK
#define QKV(which, at) (QKVS + ((b * t + (at)) * 3 + which) * d + head * size)
#define ROW(of, at) (of + (b * t + (at)) * d + head * size)
#define MASK(q, k) FACTOR
	SHARED f32 T[64 * BLOCK], XT[MOST * BLOCK];
	i64 first = GROUP % blocks * BLOCK, head = GROUP / blocks % heads, b = GROUP / blocks / heads;
	i64 last = first + BLOCK < t ? first + BLOCK - 1 : t - 1;
	i32 high = (i32)LANE / 16 * (BLOCK / 4), wide = (i32)LANE % 16;
	f32 scale = SCALE;
`

// attentionKernel adds a kernel with a group for each block of a head of a sample.
func (w *writer) attentionKernel(o ops.CausalSelfAttention, scalars int, operands []param, body string) {
	qkv := w.node.In[0].Meta.Shape
	t, d := qkv[1], qkv[2]/3
	size := d / max(1, o.Heads)
	block, most := blockOf(size), up(max(1, size), 32)
	blocks := up(t, block) / block
	params := append(operands, in(0, "QKVS"), number("t", t), number("d", d), number("heads", o.Heads), number("size", size), number("blocks", blocks))
	factor := "1.0f"
	if o.P > 0 {
		params = append(append(params, inInts(scalars, "STEP"), inInts(scalars+1, "BASE")), key(o.Key())...)
		factor = fmt.Sprintf("(kept_f((u32)keyLo, (u32)keyHi, (u64)(((BASE[0] + b) * heads + head) * t * t + (q) * t + (k)), (u32)STEP[0], %s) ? %s : 0.0f)",
			float(o.P), float(1/(1-o.P)))
	}
	text := strings.NewReplacer("FACTOR", factor, "BLOCK", fmt.Sprint(block), "MOST", fmt.Sprint(most), "SCALE", float(1/math.Sqrt(float64(size))))
	w.tiles(qkv[0]*o.Heads*blocks, 64, params, text.Replace(attentionText+body))
}

// loadBlock fills to with the rows of a block, transposed: element e of row r is at e * BLOCK + r.
func loadBlock(to, row string) string {
	return strings.NewReplacer("TO", to, "ROWOF", row).Replace(`	for (i64 e = LANE; e < size * BLOCK; e += 64) {
		i64 at = first + e % BLOCK;
		if (at > last) at = last;
		TO[e] = ROWOF[e / BLOCK];
	}
`)
}

// dots makes x[r] the product of row r of a block with a row in memory.
func dots(x, block, row string) string {
	return strings.NewReplacer("VAR", x, "TILE", block, "ROWOF", row).Replace(`		f32 VAR[BLOCK];
		for (i32 r = 0; r < BLOCK; r++) VAR[r] = 0.0f;
		{
			GLOBAL const f32* from = ROWOF;
			for (i64 e = 0; e < size; e++) {
				f32 y = from[e];
				for (i32 r = 0; r < BLOCK; r++) VAR[r] = FMA(TILE[e * BLOCK + r], y, VAR[r]);
			}
		}
`)
}

// eachKey begins a loop over 64 keys at a time; key k is the lane's.
var eachKey = `	for (i64 k0 = 0; k0 <= last; k0 += 64) {
		i64 k = k0 + LANE, there = k < t ? k : t - 1;
` + dots("x", "XT", "QKV(1, there)")

// joinLanes makes VAR[r] of all lanes the tree of those of each lane.
func joinLanes(name, join string) string {
	return strings.NewReplacer("VAR", name, "JOIN", join).Replace(`	for (i32 r = 0; r < BLOCK; r++) T[r * 64 + LANE] = VAR[r];
	BARRIER;
	for (i64 h = 32; h > 0; h /= 2) {
		if (LANE < h) for (i32 r = 0; r < BLOCK; r++) { f32 a = T[r * 64 + LANE], b = T[r * 64 + LANE + h]; T[r * 64 + LANE] = JOIN; }
		BARRIER;
	}
	for (i32 r = 0; r < BLOCK; r++) VAR[r] = T[r * 64];
	BARRIER;
`)
}

// sums declares numbers that a lane adds up: of a fourth of the rows, and each 16th element.
func sums(name string) string {
	return "\tf32 " + name + "[BLOCK / 4 * MOST / 16];\n\tfor (i32 e = 0; e < BLOCK / 4 * MOST / 16; e++) " + name + "[e] = 0.0f;\n"
}

// addRow adds to sums the products of row at with weights of TILE in column c, where counts
// says so for row r.
func addRow(name, tile, row, counts string) string {
	return strings.NewReplacer("VAR", name, "TILE", tile, "ROWOF", row, "COUNTS", counts).Replace(`			for (i32 n = 0; n < MOST / 16; n++) {
				i32 e = n * 16 + wide;
				f32 y = e < size ? ROWOF[e] : 0.0f;
				for (i32 o = 0; o < BLOCK / 4; o++) {
					i64 r = high + o;
					if (COUNTS) VAR[o * (MOST / 16) + n] = FMA(TILE[r * 64 + c], y, VAR[o * (MOST / 16) + n]);
				}
			}
`)
}

// storeSums writes sums to the rows of the block.
func storeSums(name, row string) string {
	return strings.NewReplacer("VAR", name, "ROWOF", row).Replace(`	if (!STATUS[0]) for (i32 o = 0; o < BLOCK / 4; o++) for (i32 n = 0; n < MOST / 16; n++) {
		i64 at = first + high + o, e = n * 16 + wide;
		if (at <= last && e < size) (ROWOF)[e] = VAR[o * (MOST / 16) + n];
	}
`)
}

// attention finds each query's largest product with a key, then the sum of its exponentials,
// then the mean of the values that they weigh.
func attention(w *writer, o ops.CausalSelfAttention) {
	w.attentionKernel(o, 1, []param{out(0, "Y"), out(1, "LSE")}, loadBlock("XT", "QKV(0, at)")+`	BARRIER;
	f32 m[BLOCK], s[BLOCK];
	for (i32 r = 0; r < BLOCK; r++) { m[r] = -INF_F; s[r] = 0.0f; }
`+eachKey+`		for (i32 r = 0; r < BLOCK; r++) if (k <= first + r) { f32 v = x[r] * scale; m[r] = LARGER(m[r], v); }
	}
`+joinLanes("m", "LARGER(a, b)")+eachKey+`		for (i32 r = 0; r < BLOCK; r++) if (k <= first + r) s[r] += exp_f(x[r] * scale - m[r]);
	}
`+joinLanes("s", "a + b")+`	for (i32 r = 0; r < BLOCK; r++) {
		s[r] = m[r] + log_f(s[r]);
		if (LANE == r && first + r <= last && !STATUS[0]) LSE[(b * heads + head) * t + first + r] = s[r];
	}
`+sums("sum")+eachKey+`		for (i32 r = 0; r < BLOCK; r++) T[r * 64 + LANE] = k <= first + r && first + r <= last ? exp_f(x[r] * scale - s[r]) * MASK(first + r, k) : 0.0f;
		BARRIER;
		for (i32 c = 0; c < 64 && k0 + c <= last; c++) {
`+addRow("sum", "T", "QKV(2, k0 + c)", "k0 + c <= first + r")+`		}
		BARRIER;
	}
`+storeSums("sum", "ROW(Y, at)"))
}

// attentionGrad writes the gradients of queries in one kernel, and of keys and values in
// another.
func attentionGrad(w *writer, o ops.CausalSelfAttentionGrad) {
	of := ops.CausalSelfAttention(o)
	operands := []param{in(1, "Y"), in(2, "LSE"), in(3, "DY"), out(0, "DX")}
	w.attentionKernel(of, 4, operands, "\tSHARED f32 DT[MOST * BLOCK], LOG[BLOCK], DOT[BLOCK];\n"+loadBlock("XT", "QKV(0, at)")+loadBlock("DT", "ROW(DY, at)")+`	if (LANE < BLOCK) {
		i64 at = first + LANE < last ? first + LANE : last;
		LOG[LANE] = LSE[(b * heads + head) * t + at];
		DOT[LANE] = dot_f(ROW(DY, at), ROW(Y, at), size);
	}
	BARRIER;
`+sums("sum")+eachKey+dots("z", "DT", "QKV(2, there)")+`		for (i32 r = 0; r < BLOCK; r++) {
			f32 v = 0.0f;
			if (k <= first + r && first + r <= last) v = exp_f(x[r] * scale - LOG[r]) * (z[r] * MASK(first + r, k) - DOT[r]) * scale;
			T[r * 64 + LANE] = v;
		}
		BARRIER;
		for (i32 c = 0; c < 64 && k0 + c <= last; c++) {
`+addRow("sum", "T", "QKV(1, k0 + c)", "k0 + c <= first + r")+`		}
		BARRIER;
	}
`+storeSums("sum", "DX + (b * t + at) * 3 * d + head * size"))
	w.attentionKernel(of, 4, operands, "\tSHARED f32 VT[MOST * BLOCK], U[64 * BLOCK];\n"+loadBlock("XT", "QKV(1, at)")+loadBlock("VT", "QKV(2, at)")+`	BARRIER;
`+sums("dk")+sums("dv")+`	for (i64 q0 = first; q0 < t; q0 += 64) {
		i64 q = q0 + LANE, there = q < t ? q : t - 1;
		f32 log = LSE[(b * heads + head) * t + there], dot = dot_f(ROW(DY, there), ROW(Y, there), size);
`+dots("x", "XT", "QKV(0, there)")+dots("z", "VT", "ROW(DY, there)")+`		for (i32 r = 0; r < BLOCK; r++) {
			f32 p = 0.0f, ds = 0.0f;
			if (q < t && q >= first + r && first + r <= last) {
				f32 mask = MASK(q, first + r);
				p = exp_f(x[r] * scale - log);
				ds = p * (z[r] * mask - dot) * scale;
				p = p * mask;
			}
			T[r * 64 + LANE] = p;
			U[r * 64 + LANE] = ds;
		}
		BARRIER;
		for (i32 c = 0; c < 64 && q0 + c < t; c++) {
`+addRow("dv", "T", "ROW(DY, q0 + c)", "q0 + c >= first + r")+addRow("dk", "U", "QKV(0, q0 + c)", "q0 + c >= first + r")+`		}
		BARRIER;
	}
`+storeSums("dk", "DX + ((b * t + at) * 3 + 1) * d + head * size")+storeSums("dv", "DX + ((b * t + at) * 3 + 2) * d + head * size"))
}
