package gen

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-ml/berth/engine/ops"
)

var attentions = map[string]template{
	"attention":      of(attention),
	"attention_grad": of(attentionGrad),
	"rotary":         of(rotary),
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

// attentionText begins each kernel. X[r] of [dots] is for position first + r of the block. A
// group has a head of queries, head, and of keys and values, kv. Of the sample's positions the first live
// ones count; keys are seen from kfrom to kend, and queries that see the block are qfrom to qend.
// NARROW is a number as products take it.
const attentionText = `#undef QKV
#undef ROW
#undef MASK
#undef SEES
#undef NARROW
#define QKV(which, at) (QKVS + (b * t + (at)) * width + ((which) == 0 ? head : heads + ((which) - 1) * groups + kv) * size)
#define ROW(of, at) (of + ((b * t + (at)) * heads + head) * size)
#define MASK(q, k) DROPPED
#define NARROW(x) ROUNDED
#define SEES(q, k) SEEING
	SHARED f32 T[64 * BLOCK], XT[MOST * BLOCK];
	i64 first = GROUP % blocks * BLOCK;
	WHOSE
	i64 live = LENGTH;
	i64 last = first + BLOCK < t ? first + BLOCK - 1 : t - 1;
	i64 kfrom = KFROM, kend = KEND, qfrom = QFROM, qend = QEND;
	i32 high = (i32)LANE / 16 * (BLOCK / 4), wide = (i32)LANE % 16;
	f32 scale = SCALE;
`

// attentionKernel adds a kernel with a group for each block of a head of queries of a sample,
// or where byKeys is set, of keys and values.
func (w *writer) attentionKernel(o ops.Attention, more int, byKeys bool, operands []param, body string) {
	qkv := w.node.In[0].Meta.Shape
	t, groups := qkv[1], o.Groups()
	size := o.Size(qkv[2])
	block, most := blockOf(size), up(max(1, size), 32)
	blocks := up(t, block) / block
	params := append(operands, in(0, "QKVS"), number("t", t), number("width", qkv[2]), number("heads", o.Heads), number("groups", groups), number("size", size), number("blocks", blocks))
	count, whose := o.Heads, "i64 head = GROUP / blocks % heads, b = GROUP / blocks / heads, kv = head / (heads / groups);"
	if byKeys {
		count, whose = groups, "i64 kv = GROUP / blocks % groups, b = GROUP / blocks / groups, head = kv * (heads / groups);"
	}
	length := "t"
	if o.Padded {
		params = append(params, inInts(more, "LENGTHS"))
		length, more = "LENGTHS[b] < 0 ? 0 : LENGTHS[b] < t ? LENGTHS[b] : t", more+1
	}
	packed := ""
	if o.Packed {
		params = append(params, inInts(more, "POSITIONS"))
		packed, more = " && (k) >= (q) - POSITIONS[b * t + ((q) < t ? (q) : t - 1)]", more+1
	}
	factor, rounded := "1.0f", "(x)"
	if o.BF16 {
		rounded = "bf16_f(x)"
	}
	if o.P > 0 {
		params = append(append(params, inInts(more, "STEP"), inInts(more+1, "BASE")), key(o.Key())...)
		factor = fmt.Sprintf("(kept_f((u32)keyLo, (u32)keyHi, (u64)(((BASE[0] + b) * heads + head) * t * t + (q) * t + (k)), (u32)STEP[0], %s) ? %s : 0.0f)",
			float(o.P), float(1/(1-o.P)))
	}
	// Queries of the block see keys kfrom..kend, and its keys are seen by qfrom..qend.
	sees, kfrom, kend, qfrom, qend := "(k) <= (q)", "0", "last + 1", "first", "live"
	if o.Full {
		sees, kend, qfrom = "1", "live", "0"
	}
	if o.Window > 0 {
		params = append(params, number("window", o.Window))
		sees += " && (k) > (q) - window"
		kfrom, qend = "first >= window ? (first + 1 - window) / 64 * 64 : 0", "last + window < live ? last + window : live"
		if o.Full {
			sees += " && (k) < (q) + window"
			kend, qfrom = "last + window < live ? last + window : live", "first >= window ? (first + 1 - window) / 64 * 64 : 0"
		}
	}
	sees += packed
	if o.Padded {
		sees += " && (q) < live && (k) < live"
	}
	text := strings.NewReplacer("DROPPED", factor, "ROUNDED", rounded, "SEEING", "("+sees+")", "WHOSE", whose, "LENGTH;", length+";", "KFROM", kfrom, "KEND", kend, "QFROM", qfrom, "QEND", qend,
		"BLOCK", fmt.Sprint(block), "MOST", fmt.Sprint(most), "SCALE", float(1/math.Sqrt(float64(size))))
	w.tiles(qkv[0]*count*blocks, 64, params, text.Replace(attentionText+body))
}

// loadBlock fills to with the rows of a block, transposed: element e of row r is at e * BLOCK + r.
func loadBlock(to, row string) string {
	return strings.NewReplacer("TO", to, "ROWOF", row).Replace(`	for (i64 e = LANE; e < size * BLOCK; e += 64) {
		i64 at = first + e % BLOCK;
		if (at > last) at = last;
		TO[e] = NARROW(ROWOF[e / BLOCK]);
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
				f32 y = NARROW(from[e]);
				for (i32 r = 0; r < BLOCK; r++) VAR[r] = FMA(TILE[e * BLOCK + r], y, VAR[r]);
			}
		}
`)
}

// eachKey begins a loop over 64 keys at a time; key k is the lane's.
var eachKey = `	for (i64 k0 = kfrom; k0 < kend; k0 += 64) {
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
				f32 y = e < size ? NARROW(ROWOF[e]) : 0.0f;
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
func attention(w *writer, o ops.Attention) {
	w.attentionKernel(o, 1, false, []param{out(0, "Y"), out(1, "LSE")}, loadBlock("XT", "QKV(0, at)")+`	BARRIER;
	f32 m[BLOCK], s[BLOCK];
	for (i32 r = 0; r < BLOCK; r++) { m[r] = -INF_F; s[r] = 0.0f; }
`+eachKey+`		for (i32 r = 0; r < BLOCK; r++) if (k < kend && SEES(first + r, k)) { f32 v = x[r] * scale; m[r] = LARGER(m[r], v); }
	}
`+joinLanes("m", "LARGER(a, b)")+eachKey+`		for (i32 r = 0; r < BLOCK; r++) if (k < kend && SEES(first + r, k)) s[r] += exp_f(x[r] * scale - m[r]);
	}
`+joinLanes("s", "a + b")+`	for (i32 r = 0; r < BLOCK; r++) {
		s[r] = first + r < live ? m[r] + log_f(s[r]) : 0.0f;
		if (LANE == r && first + r <= last && !STATUS[0]) LSE[(b * heads + head) * t + first + r] = s[r];
	}
`+sums("sum")+eachKey+`		for (i32 r = 0; r < BLOCK; r++) T[r * 64 + LANE] = k < kend && SEES(first + r, k) && first + r <= last ? NARROW(exp_f(x[r] * scale - s[r]) * MASK(first + r, k)) : 0.0f;
		BARRIER;
		for (i32 c = 0; c < 64 && k0 + c < kend; c++) {
`+addRow("sum", "T", "QKV(2, k0 + c)", "SEES(first + r, k0 + c)")+`		}
		BARRIER;
	}
`+storeSums("sum", "ROW(Y, at)"))
}

// attentionGrad writes the gradients of queries in one kernel, and of keys and values in
// another.
func attentionGrad(w *writer, o ops.AttentionGrad) {
	of := ops.Attention(o)
	operands := []param{in(1, "Y"), in(2, "LSE"), in(3, "DY"), out(0, "DX")}
	dot := "dot_f"
	if o.BF16 {
		dot = "rounded_dot_f"
	}
	w.attentionKernel(of, 4, false, operands, "\tSHARED f32 DT[MOST * BLOCK], LOG[BLOCK], DOT[BLOCK];\n"+loadBlock("XT", "QKV(0, at)")+loadBlock("DT", "ROW(DY, at)")+`	if (LANE < BLOCK) {
		i64 at = first + LANE < last ? first + LANE : last;
		LOG[LANE] = LSE[(b * heads + head) * t + at];
		DOT[LANE] = `+dot+`(ROW(DY, at), ROW(Y, at), size);
	}
	BARRIER;
`+sums("sum")+eachKey+dots("z", "DT", "QKV(2, there)")+`		for (i32 r = 0; r < BLOCK; r++) {
			f32 v = 0.0f;
			if (k < kend && SEES(first + r, k) && first + r <= last) v = exp_f(x[r] * scale - LOG[r]) * (z[r] * MASK(first + r, k) - DOT[r]) * scale;
			T[r * 64 + LANE] = NARROW(v);
		}
		BARRIER;
		for (i32 c = 0; c < 64 && k0 + c < kend; c++) {
`+addRow("sum", "T", "QKV(1, k0 + c)", "SEES(first + r, k0 + c)")+`		}
		BARRIER;
	}
`+storeSums("sum", "DX + (b * t + at) * width + head * size"))
	w.attentionKernel(of, 4, true, operands, "\tSHARED f32 VT[MOST * BLOCK], U[64 * BLOCK];\n"+loadBlock("XT", "QKV(1, at)")+loadBlock("VT", "QKV(2, at)")+`	BARRIER;
`+sums("dk")+sums("dv")+`	for (i64 h = 0; h < heads / groups; h++, head++) for (i64 q0 = qfrom; q0 < qend; q0 += 64) {
		i64 q = q0 + LANE, there = q < t ? q : t - 1;
		f32 log = LSE[(b * heads + head) * t + there], dot = `+dot+`(ROW(DY, there), ROW(Y, there), size);
`+dots("x", "XT", "QKV(0, there)")+dots("z", "VT", "ROW(DY, there)")+`		for (i32 r = 0; r < BLOCK; r++) {
			f32 p = 0.0f, ds = 0.0f;
			if (q < qend && SEES(q, first + r) && first + r <= last) {
				f32 mask = MASK(q, first + r);
				p = exp_f(x[r] * scale - log);
				ds = p * (z[r] * mask - dot) * scale;
				p = p * mask;
			}
			T[r * 64 + LANE] = NARROW(p);
			U[r * 64 + LANE] = NARROW(ds);
		}
		BARRIER;
		for (i32 c = 0; c < 64 && q0 + c < qend; c++) {
`+addRow("dv", "T", "ROW(DY, q0 + c)", "SEES(q0 + c, first + r)")+addRow("dk", "U", "QKV(0, q0 + c)", "SEES(q0 + c, first + r)")+`		}
		BARRIER;
	}
`+storeSums("dk", "DX + (b * t + at) * width + (heads + kv) * size")+storeSums("dv", "DX + (b * t + at) * width + (heads + groups + kv) * size"))
}

// rotary turns points. An angle is the low 64 bits of a product of whole numbers, in units
// of 2^-64 turns. A table has the factors, 16 bits a number.
func rotary(w *writer, o ops.Rotary) {
	x := w.node.In[0].Meta.Shape
	var turns []float32
	for _, turn := range o.Turns() {
		for shift := 48; shift >= 0; shift -= 16 {
			turns = append(turns, float32(turn>>shift&0xffff))
		}
	}
	params := []param{out(0, "Z"), in(0, "X"), table("TURNS", turns), number("t", x[1]), number("points", x[2]/2), number("pairs", o.Size/2), number("turned", o.Heads*o.Size/2)}
	position := "row % t"
	if len(w.node.In) == 2 {
		params, position = append(params, inInts(1, "AT")), "AT[row]"
	}
	w.items(x.Elems()/2, params, `	i64 row = i / points, point = i % points;
	i64 a = row * points * 2 + point / pairs * 2 * pairs + point % pairs, b = a + pairs;
	f32 x = X[a], y = X[b], s, c;
	if (point < turned) {
		GLOBAL const f32* part = TURNS + point % pairs * 4;
		u64 turn = (u64)part[0] << 48 | (u64)part[1] << 32 | (u64)part[2] << 16 | (u64)part[3];
		turn_f((u64)(`+position+`) * turn, &s, &c);
		Z[a] = x * c - y * s;
		Z[b] = x * s + y * c;
	} else {
		Z[a] = x;
		Z[b] = y;
	}
`)
}
