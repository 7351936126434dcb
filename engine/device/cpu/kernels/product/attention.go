package product

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/dropout"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Letters: B samples, T positions, H heads of queries of width S, G heads of keys and
// values, each for H/G of queries.
//
// A chunk is one head of keys and values of one sample, or where these are few, a range of
// its queries:
//
//  1. It packs the keys and values that its queries see, once for all heads of queries.
//  2. It goes through its queries in groups of as many rows as the inner kernel of
//     products has. A group's scores, with the keys from the first to the last that one of
//     its queries sees, are a few rows in the cache; no [T,T] is anywhere.
//  3. The gradient computes the probabilities again from lse, for a block of queries,
//     and then adds the block's contributions to dk and dv.
//
// Scores that a row does not see are overwritten with zeros, and those are multiplied with
// other positions' values. Where anything in a head is not finite, groups are of one row, so
// that there are no such products.
//
// With BF16, factors are rounded before they are packed or multiplied, and are multiplied as float32, or
// in pairs: see attention_pairs.go.
var attentionKernels = work.Table{
	"attention(f32)->f32,f32":                          newAttention,
	"attention(f32,i32)->f32,f32":                      newAttention,
	"attention(f32,i32,i32)->f32,f32":                  newAttention,
	"attention(f32,i32,i32,i32)->f32,f32":              newAttention,
	"attention_grad(f32,f32,f32,f32)->f32":             newAttentionGrad,
	"attention_grad(f32,f32,f32,f32,i32)->f32":         newAttentionGrad,
	"attention_grad(f32,f32,f32,f32,i32,i32)->f32":     newAttentionGrad,
	"attention_grad(f32,f32,f32,f32,i32,i32,i32)->f32": newAttentionGrad,
}

const (
	scoreAlign = 16 // rows of scores are whole numbers of this many elements

	// gradRows is about the number of queries in a block of the gradient.
	gradRows = 64
)

// heads is shared by forward and gradient.
type heads struct {
	op             ops.Attention
	isa            isa.ISA
	format         format // of factors
	vec            *vec.Funcs
	b, t, h, g, hd int
	shared         int     // heads of queries for each of keys and values
	width          int     // of qkv
	group          int     // rows of a group
	depth, nr      int     // of a packed panel: rows of a block of S, and columns
	across         int     // panels that T columns make
	ranges         int     // of a head's queries
	ld             int     // elements of a row of scores
	scale          float32 // of scores, 1/sqrt(S)
	drop           dropout.Dropper
	qkv, y, lse    []float32
	lengths        []int32 // where there is padding
	starts         []int32 // the first position that each sees, by sample; where sequences are packed
}

func headsOf(on work.Target, n *graph.Node, op ops.Attention) heads {
	s, l := work.In(n, 0).Shape, on.ISA
	k := heads{op: op, isa: l, vec: l.Vec(), b: s[0], t: s[1], h: op.Heads, g: op.Groups(), hd: op.Size(s[2]), width: s[2]}
	switch {
	case op.BF16 && l == isa.AVX512 && on.Pairs && k.hd <= mostPaired:
		k.format = formatPairs
	case op.BF16:
		k.format = formatRounded
	}
	k.shared, k.drop = k.h/k.g, dropout.NewDropper(on.ISA, op.Key(), op.P)
	k.group, k.nr, k.depth = isaSizes[l].mr, isaSizes[l].nr, isaSizes[l].depth(k.hd)
	k.across = work.CeilDiv(k.t, k.nr)
	samples := work.In(n.Whole(), 0).Shape[0] // the sums over queries are by ranges, of some samples as of all
	k.ranges = max(1, min(work.CeilDiv(work.EnoughChunks, max(1, samples*k.g)), k.t/(2*k.block())))
	k.ld = wide(k.t) + scoreAlign // never a power of two
	k.scale = float32(1 / math.Sqrt(float64(k.hd)))
	if op.Packed {
		k.starts = make([]int32, k.b*k.t)
	}
	return k
}

// bind takes the addresses; more are the lengths where there is padding, the positions
// where sequences are packed, and step and base where there is dropout.
func (k *heads) bind(qkv, y, lse []byte, more [][]byte) {
	k.qkv, k.y, k.lse = work.Floats(qkv, k.b*k.t*k.width), work.Floats(y, k.b*k.t*k.h*k.hd), work.Floats(lse, k.b*k.h*k.t)
	if k.op.Padded {
		k.lengths, more = work.Ints(more[0], k.b), more[1:]
	}
	if k.op.Packed {
		positions := work.Ints(more[0], k.b*k.t)
		for at := 0; at < len(positions); at += k.t {
			ops.Starts(k.starts[at:at+k.t], positions[at:at+k.t])
		}
		more = more[1:]
	}
	if len(more) == 2 {
		k.drop.Bind(more[0], more[1], k.h*k.t*k.t)
	}
}

// block is the queries that the gradient takes together, whole groups. Ranges are whole
// blocks.
func (k *heads) block() int { return gradRows / k.group * k.group }

// run shares the ranges of all heads.
func (k *heads) run(p work.Pool, t work.Task) {
	if k.t > 0 {
		work.Do(p, k.b*k.g*k.ranges, t)
	}
}

// rangeOf is the head of keys and values of chunk i, and its queries.
func (k *heads) rangeOf(i int) (c, lo, hi int) {
	return i / k.ranges, k.start(i % k.ranges), k.start(i%k.ranges + 1)
}

// start is the first query of range p. Where work grows with the position, the bounds grow
// with the root of p.
func (k *heads) start(p int) int {
	if p == k.ranges {
		return k.t
	}
	share := float64(p) / float64(k.ranges)
	if !k.op.Full && k.op.Window == 0 {
		share = math.Sqrt(share)
	}
	return int(float64(k.t)*share) / k.block() * k.block()
}

// span is the positions of head c's sample that count, and the keys from..to that its
// queries q0..q1 see, all of which count.
func (k *heads) span(c, q0, q1 int) (n, from, to int) {
	n = k.length(c)
	from, _ = k.seen(c, q0, n)
	_, to = k.op.Seen(q1-1, n)
	return n, from, to
}

// seen is the keys from..to that query q of head c's sample sees, of n positions. Neither goes
// back from a query to the next.
func (k *heads) seen(c, q, n int) (from, to int) {
	from, to = k.op.Seen(q, n)
	if k.starts != nil {
		from = max(from, int(k.starts[c/k.g*k.t+q]))
	}
	return from, to
}

// length is the positions that count in the sample of head c of keys and values.
func (k *heads) length(c int) int {
	if k.lengths == nil {
		return k.t
	}
	return ops.Length(k.lengths[c/k.g], k.t)
}

// queriesOf are the heads of queries from..to that take head c of keys and values.
func (k *heads) queriesOf(c int) (from, to int) { return c * k.shared, (c + 1) * k.shared }

// qkvOf is the queries (0) of head c of queries, or the keys (1) or values (2) that it
// takes, in a tensor laid out like qkv, rows q0 on.
func (k *heads) qkvOf(x []float32, c, which, q0 int) operand {
	at := c % k.h
	if which > 0 {
		at = k.h + (which-1)*k.g + at/k.shared
	}
	return operand{data: x[(c/k.h*k.t+q0)*k.width+at*k.hd:], rs: k.width, cs: 1}
}

// rowsOf is head c in a tensor laid out like y, rows q0 on.
func (k *heads) rowsOf(x []float32, c, q0 int) operand {
	return operand{data: x[((c/k.h*k.t+q0)*k.h+c%k.h)*k.hd:], rs: k.h * k.hd, cs: 1}
}

// wipe writes zeros to rows lo..hi of a head's operand, which begins with row 0.
func (k *heads) wipe(o operand, lo, hi int) {
	for q := lo; q < hi; q++ {
		clear(o.data[q*o.rs:][:k.hd])
	}
}

// factors are n rows of a head's operand as products take them: dst gets them where they are
// rounded.
func (k *heads) factors(dst []float32, o operand, n int) operand {
	if k.format == formatFloat {
		return o
	}
	for i := range n {
		round(k.isa, dst[i*k.hd:][:k.hd], o.data[i*o.rs:][:k.hd])
	}
	return operand{data: dst, rs: k.hd, cs: 1}
}

// factorsSize is the elements of all that factors may write.
func (k *heads) factorsSize() int {
	if k.format == formatFloat {
		return 0
	}
	return k.t * k.hd
}

// roundScores rounds rows of n numbers, ld elements apart, where factors are rounded.
func (k *heads) roundScores(s []float32, rows, n int) {
	for i := range rows {
		if k.format == formatFloat {
			return
		}
		round(k.isa, s[i*k.ld:][:n], s[i*k.ld:][:n])
	}
}

// finite reports whether n rows of a head's operand are finite.
func (k *heads) finite(o operand, n int) bool {
	o.check(n, k.hd)
	return k.vec.Zeros(&o.data[0], o.rs, n, k.hd) == 0
}

// index is the random index of key 0 for query q of head c.
func (k *heads) index(c, q int) uint64 {
	return k.drop.Index(c/k.h, (c%k.h*k.t+q)*k.t)
}

// packedSize is the elements of a head's packed keys or values.
func (k *heads) packedSize() int {
	return k.across * k.nr * work.CeilDiv(k.hd, k.depth) * k.depth
}

// pack writes the transpose of a head's first n keys or values as panels, a block of
// S after another.
func (k *heads) pack(ws *workspace, dst []float32, o operand, n int) {
	g := gemm{isa: k.isa, b: o.transposed(), k: k.hd}
	for k0 := 0; k0 < k.hd; k0 += k.depth {
		p := panels{data: dst, step: k.nr * k.depth, stride: k.nr, k: min(k.depth, k.hd-k0)}
		g.packColumns(ws, p, k0, 0, n)
		dst = dst[k.across*p.step:]
	}
}

// panel is the first key of the panel that has key j.
func (k *heads) panel(j int) int { return j / k.nr * k.nr }

// against writes to s rows of a times columns from..to of keys or values that pack
// packed; from is the first of a panel.
func (k *heads) against(ws *workspace, s []float32, a operand, packed []float32, rows, from, to int) {
	a.check(rows, k.hd)
	_ = s[(rows-1)*k.ld+to-from-1]
	g := gemm{isa: k.isa, a: a, c: s, ldc: k.ld, k: k.hd}
	for k0 := 0; k0 < k.hd; k0 += k.depth {
		p := panels{data: packed[from/k.nr*k.nr*k.depth:], step: k.nr * k.depth, stride: k.nr, k: min(k.depth, k.hd-k0)}
		g.sweep(ws, p, 0, rows, 0, to-from, k0, k0 > 0)
		packed = packed[k.across*p.step:]
	}
}

// packRows writes a head's first n keys or values as panels, T rows of some columns
// after another.
func (k *heads) packRows(dst []float32, o operand, n int) {
	o.check(n, k.hd)
	_ = dst[k.rowsSize()-1]
	spread(k.isa, &dst[0], k.nr*k.t, &o.data[0], o.rs, k.hd, n)
}

// rowsSize is the elements that packRows writes.
func (k *heads) rowsSize() int { return work.CeilDiv(k.hd, k.nr) * k.nr * k.t }

// weigh writes rows of weights times the rows from..to of keys or values that packRows
// packed.
func (k *heads) weigh(ws *workspace, out operand, weights, packed []float32, rows, from, to int) {
	n := to - from
	_, _ = weights[(rows-1)*k.ld+n-1], out.data[(rows-1)*out.rs+k.hd-1]
	g := gemm{isa: k.isa, a: operand{data: weights, rs: k.ld, cs: 1}, c: out.data, ldc: out.rs, k: n}
	for k0 := 0; k0 < n; k0 += blockK {
		p := panels{data: packed[(from+k0)*k.nr:], step: k.nr * k.t, stride: k.nr, k: min(blockK, n-k0)}
		g.sweep(ws, p, 0, rows, 0, k.hd, k0, k0 > 0)
	}
}

// masked fills the scores that queries q0..q1 do not see with a number, among those of the
// keys from the first of the rows on, up to a whole vector behind to. What is right of causal
// queries, the functions that go over the scores leave out.
func (k *heads) masked(s []float32, c, n, q0, q1, first, to int, with float32) {
	for q := q0; q < q1; q++ {
		from, end := k.seen(c, q, n)
		row := s[(q-q0)*k.ld:]
		fill(row[:from-first], with)
		if k.op.Full {
			fill(row[end-first:wide(to-first)], with)
		}
	}
}

func fill(x []float32, with float32) {
	for i := range x {
		x[i] = with
	}
}

// counted is the scores of a group's first row that count, as the functions over scores take
// them: one more for each row, or all, of which some are masked.
func (k *heads) counted(q, first, to int) int {
	if k.op.Full {
		return wide(to - first)
	}
	return q + 1 - first
}

var never = float32(math.Inf(-1))

// wide is n rounded up to whole vectors: how far a row of scores of n elements is gone
// through.
func wide(n int) int { return work.CeilDiv(n, scoreAlign) * scoreAlign }

type attention struct{ heads }

func newAttention(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := attention{headsOf(on, n, n.Op.(ops.Attention))}
	if k.format == formatPairs {
		return &attentionPairs{k}, nil
	}
	return &k, nil
}

func (k *attention) ScratchBytes() int64 { return 0 }

func (k *attention) Run(p work.Pool, a *work.Args) error {
	k.bind(a.In[0], a.Out[0], a.Out[1], a.In[1:])
	k.run(p, k)
	return nil
}

// wiped is the head of keys and values of chunk i, and its queries that count. It writes zeros
// for the others.
func (k *attention) wiped(i int) (c, lo, live int) {
	c, lo, hi := k.rangeOf(i)
	live = max(lo, min(hi, k.length(c)))
	from, to := k.queriesOf(c)
	for head := from; head < to && live < hi; head++ {
		k.wipe(k.rowsOf(k.y, head, 0), live, hi)
		clear(k.lse[head*k.t+live : head*k.t+hi])
	}
	return c, lo, live
}

func (k *attention) Chunk(i int) {
	c, lo, live := k.wiped(i)
	if lo == live {
		return
	}
	from, to := k.queriesOf(c)
	_, first, end := k.span(c, lo, live)
	ws := takeWorkspace()
	defer ws.giveBack()
	room := work.CeilDiv(k.group, vec.AttendRows) * vec.AttendRows
	mem := ws.arena(k.packedSize() + k.rowsSize() + room*k.ld + 2*(k.t+room) + k.factorsSize())
	h := attentionHead{ws: ws, c: c, lo: lo, hi: live, first: first, group: k.group}
	h.keys, h.values, h.s = mem.cut(k.packedSize()), mem.cut(k.rowsSize()), mem.cut(room*k.ld)
	h.most, h.sums = mem.cut(k.t+room), mem.cut(k.t+room)
	h.factors = mem.cut(k.factorsSize())
	k.pack(ws, h.keys, k.factors(h.factors, k.qkvOf(k.qkv, from, 1, first), end-first), end-first)
	values := k.factors(h.factors, k.qkvOf(k.qkv, from, 2, first), end-first)
	k.packRows(h.values, values, end-first)
	if !k.finite(values, end-first) {
		h.group = 1
	}
	for head := from; head < to; head++ {
		k.head(&h, head)
	}
}

// attentionHead is the memory of one chunk: packed keys and values from the first on, and
// for a group of queries scores, and the largest and the sum of each row.
type attentionHead struct {
	ws              *workspace
	c, lo, hi       int // head of keys and values, and queries
	first           int // key
	group           int
	keys, values, s []float32
	most, sums      []float32
	factors         []float32 // of a head's rows
}

// head computes the queries of one head.
func (k *attention) head(h *attentionHead, head int) {
	queries := k.factors(h.factors, k.qkvOf(k.qkv, head, 0, h.lo), h.hi-h.lo)
	for q0 := h.lo; q0 < h.hi; q0 += h.group {
		q1 := min(q0+h.group, h.hi)
		n, from, to := k.span(h.c, q0, q1)
		first := h.first + k.panel(from-h.first)
		k.against(h.ws, h.s, queries.from(q0-h.lo, 0), h.keys, q1-q0, first-h.first, to-h.first)
		k.masked(h.s, h.c, n, q0, q1, first, to, never)
		k.vec.Attend(&h.s[0], k.ld, q1-q0, k.counted(q0, first, to), wide(to-first), k.scale, &h.most[q0], &h.sums[q0])
		for q := q0; q < q1 && k.drop.Drops(); q++ {
			_, end := k.op.Seen(q, n)
			k.drop.Apply(h.s[(q-q0)*k.ld:][:end-first], k.index(head, q)+uint64(first))
		}
		k.roundScores(h.s, q1-q0, to-first)
		k.weigh(h.ws, k.rowsOf(k.y, head, q0), h.s[from-first:], h.values, q1-q0, from-h.first, to-h.first)
	}
	k.logs(head, h.lo, h.hi, h.most, h.sums)
}

// logs writes lse of queries lo..hi of a head.
func (k *attention) logs(head, lo, hi int, most, sums []float32) {
	sums = sums[lo:hi]
	k.vec.Log(sums, sums)
	k.vec.Add(k.lse[head*k.t+lo:head*k.t+hi], most[lo:hi], sums)
}
