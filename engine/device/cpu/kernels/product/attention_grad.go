package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// attentionGrad is the gradient. With P the probabilities, M the dropout factors, and
// delta[q] = dy[q].y[q] = sum over k of P M (dy v^T), it is dv = (P M)^T dy, ds = P (M
// (dy v^T) - delta), dq = ds k scale, dk = ds^T q scale.
//
// Of two ranges of a head, the later one adds to dk and dv of the earlier one's
// positions; where queries see later keys, to those of all positions. It does so in
// scratch memory, and ranges are added in order.
type attentionGrad struct {
	heads
	dqkv, dy []float32
	more     []float32 // [B*G, ranges-1, T, 2, S]
}

func newAttentionGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := ops.Attention(n.Op.(ops.AttentionGrad))
	k := attentionGrad{heads: headsOf(on, n, op)}
	if k.format == formatPairs {
		return &attentionGradPairs{k}, nil
	}
	return &k, nil
}

func (k *attentionGrad) ScratchBytes() int64 { return int64(k.b*k.g*(k.ranges-1)*k.t*2*k.hd) * 4 }

func (k *attentionGrad) Run(p work.Pool, a *work.Args) error {
	k.bindGrad(a)
	k.run(p, k)
	k.addRanges(p)
	return nil
}

func (k *attentionGrad) bindGrad(a *work.Args) {
	k.bind(a.In[0], a.In[1], a.In[2], a.In[4:])
	k.dqkv, k.dy = work.Floats(a.Out[0], len(k.qkv)), work.Floats(a.In[3], len(k.y))
	k.more = work.Floats(a.Scratch, int(k.ScratchBytes()/4))
}

// addRanges adds up what ranges have for the positions of others.
func (k *attentionGrad) addRanges(p work.Pool) {
	if k.ranges > 1 {
		work.Do(p, k.b*k.g*work.CeilDiv(k.t, gradRows), (*attentionRanges)(k))
	}
}

// beyond is the dk (1) or dv (2) that range p > 0 of head c of keys and values has for the
// positions of other ranges.
func (k *attentionGrad) beyond(c, p, which int) operand {
	return operand{data: k.more[(c*(k.ranges-1)+p-1)*k.t*2*k.hd+(which-1)*k.hd:], rs: 2 * k.hd, cs: 1}
}

// reach is how far the positions go for which range p has something in beyond.
func (k *attentionGrad) reach(p int) int {
	if k.op.Full {
		return k.t
	}
	return k.start(p)
}

// attentionRanges adds the ranges up, a chunk for some positions of a head.
type attentionRanges attentionGrad

func (k *attentionRanges) Chunk(i int) {
	g := (*attentionGrad)(k)
	blocks := work.CeilDiv(k.t, gradRows)
	c := i / blocks
	head, _ := g.queriesOf(c)
	lo, hi := work.Interval(i%blocks, gradRows, k.t)
	for p := 1; p < k.ranges; p++ {
		for which := 1; which <= 2; which++ {
			out, more := g.qkvOf(k.dqkv, head, which, 0), g.beyond(c, p, which)
			for t := lo; t < min(hi, g.reach(p)); t++ {
				y := out.data[t*out.rs:][:k.hd]
				k.vec.Add(y, y, more.data[t*more.rs:][:k.hd])
			}
		}
	}
}

// gradHead is the memory of one chunk of the gradient: packed keys and values from the
// first on; and for a block of queries P M, the gradient of the scores, M, and pairs of lse
// and delta.
type gradHead struct {
	ws                   *workspace
	c, p, lo, hi         int // head of keys and values, range and its queries
	head                 int // of queries
	first                int // key
	block, group         int
	keys, values, plain  []float32 // plain are the keys not transposed
	pm, ds, drops, stats []float32
	finite               bool // the keys are
	factors              []float32
	queries, dy          operand // of the head, from row 0 on
}

// chunk readies the memory of chunk i, whose queries are lo..hi.
func (k *attentionGrad) chunk(ws *workspace, i, lo, hi int) gradHead {
	c, _, _ := k.rangeOf(i)
	block, drops := k.block(), 0
	if k.drop.Drops() {
		drops = block * k.ld
	}
	mem := ws.arena(2*k.packedSize() + k.rowsSize() + 2*block*k.ld + 2*k.t + drops + 2*k.factorsSize())
	h := gradHead{ws: ws, c: c, p: i % k.ranges, lo: lo, hi: hi}
	h.keys, h.values, h.plain = mem.cut(k.packedSize()), mem.cut(k.packedSize()), mem.cut(k.rowsSize())
	h.pm, h.ds, h.drops = mem.cut(block*k.ld), mem.cut(block*k.ld), mem.cut(drops)
	h.stats, h.factors = mem.cut(2*hi), mem.cut(2*k.factorsSize())
	_, first, end := k.span(c, lo, hi)
	h.first = first
	head, _ := k.queriesOf(c)
	k.pack(ws, h.values, k.factors(h.factors, k.qkvOf(k.qkv, head, 2, first), end-first), end-first)
	keys := k.factors(h.factors, k.qkvOf(k.qkv, head, 1, first), end-first)
	k.pack(ws, h.keys, keys, end-first)
	k.packRows(h.plain, keys, end-first)
	h.finite = k.finite(keys, end-first)
	return h
}

// begin readies it for a head of queries.
func (k *attentionGrad) begin(h *gradHead, head int) {
	h.head, h.block, h.group = head, k.block(), k.group
	y := k.rowsOf(k.y, head, 0)
	h.queries = k.factors(h.factors, k.qkvOf(k.qkv, head, 0, 0), h.hi)
	h.dy = k.factors(h.factors[k.factorsSize():], k.rowsOf(k.dy, head, 0), h.hi)
	y.check(h.hi, k.hd)
	k.vec.RowDots(&h.stats[1], 2, &y.data[0], y.rs, &h.dy.data[0], h.dy.rs, h.hi, k.hd)
	for q, v := range k.lse[head*k.t:][:h.hi] {
		h.stats[2*q] = v
	}
	// Where dy is not finite, neither is its delta.
	if k.vec.Zeros(&h.stats[0], 0, 1, len(h.stats)) == 0 && k.finite(h.queries, h.hi) && h.finite {
		return
	}
	h.group = 1
	if k.op.Window > 0 || k.op.Packed {
		h.block = 1
	}
}

func (k *attentionGrad) Chunk(i int) {
	c, lo, hi := k.rangeOf(i)
	live := max(lo, min(hi, k.length(c)))
	from, to := k.queriesOf(c)
	k.clear(i, lo, live, hi)
	if lo == live {
		return
	}
	ws := takeWorkspace()
	defer ws.giveBack()
	h := k.chunk(ws, i, lo, live)
	for head := from; head < to; head++ {
		k.begin(&h, head)
		for q0 := h.lo; q0 < h.hi; q0 += h.block {
			q1 := min(q0+h.block, h.hi)
			for q := q0; q < q1; q += h.group {
				k.queries(&h, q0, q, min(q+h.group, q1))
			}
			k.add(&h, q0, q1)
		}
	}
}

// clear writes zeros where a chunk will add, and where nothing else writes.
func (k *attentionGrad) clear(i, lo, live, hi int) {
	c, p := i/k.ranges, i%k.ranges
	from, to := k.queriesOf(c)
	for head := from; head < to; head++ {
		k.wipe(k.qkvOf(k.dqkv, head, 0, 0), live, hi)
	}
	for which := 1; which <= 2; which++ {
		if p > 0 {
			k.wipe(k.beyond(c, p, which), 0, k.reach(p))
		}
		switch out := k.qkvOf(k.dqkv, from, which, 0); {
		case !k.op.Full:
			k.wipe(out, live, hi)
		case p == 0:
			k.wipe(out, 0, k.t)
		}
	}
}

// queries computes a group's rows of P M and ds, and its dq. The rows of a block begin with
// the same key.
func (k *attentionGrad) queries(h *gradHead, q0, q, q1 int) {
	rows, at := q1-q, (q-q0)*k.ld
	pm, ds := h.pm[at:], h.ds[at:]
	n, _, to := k.span(h.c, q, q1)
	if k.op.Full { // the block's products with dy and the queries go over the keys that any of it sees
		_, _, to = k.span(h.c, q0, min(q0+h.block, h.hi))
	}
	first := k.firstOf(h.c, h.first, q0)
	k.against(h.ws, pm, h.queries.from(q, 0), h.keys, rows, first-h.first, to-h.first)
	k.against(h.ws, ds, h.dy.from(q, 0), h.values, rows, first-h.first, to-h.first)
	drops := h.drops
	if k.drop.Drops() {
		drops = drops[at:]
	}
	k.weights(h.head, h.c, n, q, q1, first, to, pm, ds, drops, h.stats[2*q:])
	k.roundScores(pm, rows, to-first)
	k.roundScores(ds, rows, to-first)
	from, _ := k.seen(h.c, q, n)
	k.weigh(h.ws, k.qkvOf(k.dqkv, h.head, 0, q), ds[from-first:], h.plain, rows, from-h.first, to-h.first)
}

// weights turns rows of scores of queries q..q1 and keys first..to, and of the products of dy and values, into P M
// and ds. drops get M where there is dropout.
func (k *attentionGrad) weights(head, c, n, q, q1, first, to int, pm, ds, drops, stats []float32) {
	rows := q1 - q
	k.masked(pm, c, n, q, q1, first, to, never)
	for i := range rows {
		if !k.drop.Drops() {
			break
		}
		_, end := k.op.Seen(q+i, n)
		m, x := drops[i*k.ld:][:end-first], ds[i*k.ld:]
		k.drop.Factors(m, k.index(head, q+i)+uint64(first))
		k.vec.Mul(x[:len(m)], x[:len(m)], m)
	}
	k.vec.AttendGrad(&pm[0], &ds[0], k.ld, rows, k.counted(q, first, to), wide(to-first), k.scale, &stats[0])
	k.masked(ds, c, n, q, q1, first, to, 0) // 0 times what is not finite is not 0
	for i := range rows {
		if !k.drop.Drops() {
			break
		}
		_, end := k.op.Seen(q+i, n)
		m, x := drops[i*k.ld:][:end-first], pm[i*k.ld:]
		k.vec.Mul(x[:len(m)], x[:len(m)], m)
	}
}

// firstOf is the key with which the rows of the block of query q0 begin, of a chunk whose keys begin with least.
func (k *attentionGrad) firstOf(c, least, q0 int) int {
	_, from, _ := k.span(c, q0, q0+1)
	return least + k.panel(from-least)
}

// add adds the contributions of queries q0..q1 to dk and dv. Of a causal block, keys among
// its queries are first seen by those of their own group, and only by those and later ones.
func (k *attentionGrad) add(h *gradHead, q0, q1 int) {
	_, from, to := k.span(h.c, q0, q1)
	first := k.firstOf(h.c, h.first, q0)
	head, _ := k.queriesOf(h.c)
	for _, p := range [2]struct {
		weights []float32
		rows    operand
		which   int
	}{{h.ds, h.queries.from(q0, 0), 1}, {h.pm, h.dy.from(q0, 0), 2}} {
		own := k.qkvOf(k.dqkv, head, p.which, 0)
		// those adds to the keys lo..hi, of out, the contributions of queries q on.
		those := func(out operand, q, lo, hi int, add bool) {
			if lo >= hi {
				return
			}
			g := gemm{isa: k.isa, c: out.data[lo*out.rs:], ldc: out.rs, k: q1 - q, add: add}
			g.a = operand{data: p.weights[(q-q0)*k.ld+lo-first:], rs: 1, cs: k.ld}
			g.b = operand{data: p.rows.data[(q-q0)*p.rows.rs:], rs: p.rows.rs, cs: 1}
			g.doIn(h.ws, 0, hi-lo, 0, k.hd)
		}
		switch {
		case k.op.Full && h.p == 0:
			those(own, q0, from, to, true)
			continue
		case k.op.Full:
			those(k.beyond(h.c, h.p, p.which), q0, from, to, true)
			continue
		case from < h.lo:
			those(k.beyond(h.c, h.p, p.which), q0, from, h.lo, true)
		}
		those(own, q0, max(from, h.lo), q0, true)
		for q := q0; q < q1; q += h.group {
			those(own, q, q, min(q+h.group, q1), h.head > head)
		}
	}
}
