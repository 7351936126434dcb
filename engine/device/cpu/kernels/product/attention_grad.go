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
// positions. It does so in scratch memory, and ranges are added in order.
type attentionGrad struct {
	heads
	dqkv, dy []float32
	more     []float32 // [B*H, ranges-1, T, 2, D/H]
}

func newAttentionGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := ops.CausalSelfAttention(n.Op.(ops.CausalSelfAttentionGrad))
	return &attentionGrad{heads: headsOf(on, n, op)}, nil
}

func (k *attentionGrad) ScratchBytes() int64 { return int64(k.b*k.h*(k.ranges-1)*k.t*2*k.hd) * 4 }

func (k *attentionGrad) Run(p work.Pool, a *work.Args) error {
	k.bind(a.In[0], a.In[1], a.In[2], a.In[4:])
	k.dqkv, k.dy = work.Floats(a.Out[0], len(k.qkv)), work.Floats(a.In[3], len(k.y))
	k.more = work.Floats(a.Scratch, int(k.ScratchBytes()/4))
	k.run(p, k)
	if k.ranges > 1 {
		work.Do(p, k.b*k.h*work.CeilDiv(k.t, gradRows), (*attentionRanges)(k))
	}
	return nil
}

// beyond is the dk (1) or dv (2) that range p > 0 of head c has for the positions
// before it.
func (k *attentionGrad) beyond(c, p, which int) operand {
	return operand{data: k.more[(c*(k.ranges-1)+p-1)*k.t*2*k.hd+(which-1)*k.hd:], rs: 2 * k.hd, cs: 1}
}

// attentionRanges adds the ranges up, a chunk for some positions of a head.
type attentionRanges attentionGrad

func (k *attentionRanges) Chunk(i int) {
	g := (*attentionGrad)(k)
	blocks := work.CeilDiv(k.t, gradRows)
	lo, hi := work.Interval(i%blocks, gradRows, k.t)
	for p := 1; p < k.ranges; p++ {
		for which := 1; which <= 2; which++ {
			out, more := g.qkvOf(k.dqkv, i/blocks, which, 0), g.beyond(i/blocks, p, which)
			for t := lo; t < min(hi, k.start(p)); t++ {
				y := out.data[t*out.rs:][:k.hd]
				k.vec.Add(y, y, more.data[t*more.rs:][:k.hd])
			}
		}
	}
}

// gradHead is the memory of one chunk of the gradient: packed keys and values; and for
// a block of queries P M, the gradient of the scores, M, and pairs of lse and delta.
type gradHead struct {
	ws                   *workspace
	c, p, lo, hi         int // head, range and its queries
	group                int
	keys, values, plain  []float32 // plain are the keys not transposed
	pm, ds, drops, stats []float32
}

func (k *attentionGrad) head(ws *workspace, i int) gradHead {
	c, lo, hi := k.rangeOf(i)
	block, drops := k.block(), 0
	if k.drop.Drops() {
		drops = block * k.ld
	}
	mem := ws.arena(2*k.packedSize() + k.rowsSize() + 2*block*k.ld + 2*k.t + drops)
	h := gradHead{ws: ws, c: c, p: i % k.ranges, lo: lo, hi: hi, group: k.group}
	h.keys, h.values, h.plain = mem.cut(k.packedSize()), mem.cut(k.packedSize()), mem.cut(k.rowsSize())
	h.pm, h.ds, h.drops = mem.cut(block*k.ld), mem.cut(block*k.ld), mem.cut(drops)
	h.stats = mem.cut(2 * hi)
	k.pack(ws, h.keys, k.qkvOf(k.qkv, c, 1, 0), hi)
	k.pack(ws, h.values, k.qkvOf(k.qkv, c, 2, 0), hi)
	k.packRows(h.plain, k.qkvOf(k.qkv, c, 1, 0), hi)
	y, dy := k.rowsOf(k.y, c, 0), k.rowsOf(k.dy, c, 0)
	y.check(hi, k.hd)
	k.vec.RowDots(&h.stats[1], 2, &y.data[0], &dy.data[0], k.d, hi, k.hd)
	for q, v := range k.lse[c*k.t:][:hi] {
		h.stats[2*q] = v
	}
	// Where dy is not finite, neither is its delta.
	if k.vec.Zeros(&h.stats[0], 0, 1, len(h.stats)) != 0 || !k.finite(k.qkvOf(k.qkv, c, 0, 0), hi) || !k.finite(k.qkvOf(k.qkv, c, 1, 0), hi) {
		h.group = 1
	}
	return h
}

func (k *attentionGrad) Chunk(i int) {
	if _, lo, hi := k.rangeOf(i); lo == hi {
		return
	}
	ws := takeWorkspace()
	defer ws.giveBack()
	h := k.head(ws, i)
	for q0 := h.lo; q0 < h.hi; q0 += k.block() {
		q1 := min(q0+k.block(), h.hi)
		for q := q0; q < q1; q += h.group {
			k.queries(&h, q0, q, min(q+h.group, q1))
		}
		k.add(&h, q0, q1)
	}
}

// queries computes a group's rows of P M and ds, and its dq.
func (k *attentionGrad) queries(h *gradHead, q0, q, q1 int) {
	n, at := q1-q, (q-q0)*k.ld
	pm, ds := h.pm[at:], h.ds[at:]
	k.against(h.ws, pm, k.qkvOf(k.qkv, h.c, 0, q), h.keys, n, q1)
	k.against(h.ws, ds, k.rowsOf(k.dy, h.c, q), h.values, n, q1)
	if k.drop.Drops() {
		for i := range n {
			m, x := h.drops[at+i*k.ld:][:q+i+1], ds[i*k.ld:]
			k.drop.Factors(m, k.index(h.c, q+i))
			k.vec.Mul(x[:len(m)], x[:len(m)], m)
		}
	}
	k.vec.AttendGrad(&pm[0], &ds[0], k.ld, n, q+1, wide(q1), k.scale, &h.stats[2*q])
	if k.drop.Drops() {
		for i := range n {
			m, x := h.drops[at+i*k.ld:][:q+i+1], pm[i*k.ld:]
			k.vec.Mul(x[:len(m)], x[:len(m)], m)
		}
	}
	k.weigh(h.ws, k.qkvOf(k.dqkv, h.c, 0, q), ds, h.plain, n, q1)
}

// add adds the contributions of queries q0..q1 to dk and dv. Keys among them are first
// seen by the queries of their own group, and only by those and later ones.
func (k *attentionGrad) add(h *gradHead, q0, q1 int) {
	for _, p := range [2]struct {
		weights []float32
		from    operand
		which   int
	}{{h.ds, k.qkvOf(k.qkv, h.c, 0, q0), 1}, {h.pm, k.rowsOf(k.dy, h.c, q0), 2}} {
		g := gemm{isa: k.isa, a: operand{data: p.weights, rs: 1, cs: k.ld}, b: p.from, k: q1 - q0}
		if h.lo > 0 {
			out := k.beyond(h.c, h.p, p.which)
			g.c, g.ldc, g.add = out.data, out.rs, q0 > h.lo
			g.doIn(h.ws, 0, h.lo, 0, k.hd)
		}
		out := k.qkvOf(k.dqkv, h.c, p.which, 0)
		g.c, g.ldc, g.add = out.data, out.rs, true
		g.doIn(h.ws, h.lo, q0, 0, k.hd)
		g.add = false
		for i := q0; i < q1; i += h.group {
			g.a.data, g.b.data = p.weights[(i-q0)*k.ld:], p.from.data[(i-q0)*p.from.rs:]
			g.k = q1 - i
			g.doIn(h.ws, i, min(i+h.group, q1), 0, k.hd)
		}
	}
}
