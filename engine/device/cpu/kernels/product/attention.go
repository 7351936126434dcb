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

// Letters: B samples, T positions, D width, H heads of width D/H.
//
// A chunk is one head of one sample, or where these are few, a range of its queries:
//
//  1. It packs the keys and values that its queries see.
//  2. It goes through its queries in groups of as many rows as the inner kernel of
//     products has. A group's scores, with the keys up to its last query, are a few
//     rows in the cache; no [T,T] is anywhere.
//  3. The gradient computes the probabilities again from lse, for a block of queries,
//     and then adds the block's contributions to dk and dv.
//
// Scores beyond a row's own position are overwritten with zeros, and those are
// multiplied with later positions' values. Where anything in a head is not finite,
// groups are of one row, so that there are no such products.
var attentionKernels = work.Table{
	"causal_attention(f32)->f32,f32":                      newAttention,
	"causal_attention(f32,i32,i32)->f32,f32":              newAttention,
	"causal_attention_grad(f32,f32,f32,f32)->f32":         newAttentionGrad,
	"causal_attention_grad(f32,f32,f32,f32,i32,i32)->f32": newAttentionGrad,
}

const (
	scoreAlign = 16 // rows of scores are whole numbers of this many elements

	// gradRows is about the number of queries in a block of the gradient.
	gradRows = 64
)

// heads is shared by forward and gradient.
type heads struct {
	isa            isa.ISA
	vec            *vec.Funcs
	b, t, d, h, hd int
	group          int     // rows of a group
	depth, nr      int     // of a packed panel: rows of a block of D/H, and columns
	across         int     // panels that T columns make
	ranges         int     // of a head's queries
	ld             int     // elements of a row of scores
	scale          float32 // of scores, 1/sqrt(D/H)
	drop           dropout.Dropper
	qkv, y, lse    []float32
}

func headsOf(on work.Target, n *graph.Node, op ops.CausalSelfAttention) heads {
	s, l := work.In(n, 0).Shape, on.ISA
	k := heads{isa: l, vec: l.Vec(), b: s[0], t: s[1], d: s[2] / 3, h: op.Heads, hd: s[2] / 3 / op.Heads, drop: dropout.NewDropper(on.ISA, op.Key(), op.P)}
	k.group, k.nr, k.depth = isaSizes[l].mr, isaSizes[l].nr, isaSizes[l].depth(k.hd)
	k.across = work.CeilDiv(k.t, k.nr)
	k.ranges = max(1, min(work.CeilDiv(work.EnoughChunks, max(1, k.b*k.h)), k.t/(2*k.block())))
	k.ld = wide(k.t) + scoreAlign // never a power of two
	k.scale = float32(1 / math.Sqrt(float64(k.hd)))
	return k
}

// bind takes the addresses; scalars are step and base where there is dropout.
func (k *heads) bind(qkv, y, lse []byte, scalars [][]byte) {
	k.qkv, k.y, k.lse = work.Floats(qkv, k.b*k.t*k.d*3), work.Floats(y, k.b*k.t*k.d), work.Floats(lse, k.b*k.h*k.t)
	if len(scalars) == 2 {
		k.drop.Bind(scalars[0], scalars[1], k.h*k.t*k.t)
	}
}

// block is the queries that the gradient takes together, whole groups. Ranges are whole
// blocks.
func (k *heads) block() int { return gradRows / k.group * k.group }

// run shares the ranges of all heads.
func (k *heads) run(p work.Pool, t work.Task) {
	if k.t > 0 {
		work.Do(p, k.b*k.h*k.ranges, t)
	}
}

// rangeOf is the head of chunk i, and its queries.
func (k *heads) rangeOf(i int) (c, lo, hi int) {
	return i / k.ranges, k.start(i % k.ranges), k.start(i%k.ranges + 1)
}

// start is the first query of range p. Work grows with the position, so the bounds grow
// with the root of p.
func (k *heads) start(p int) int {
	if p == k.ranges {
		return k.t
	}
	return int(float64(k.t)*math.Sqrt(float64(p)/float64(k.ranges))) / k.block() * k.block()
}

// qkvOf is queries (0), keys (1) or values (2) of head c in a tensor laid out like qkv,
// rows q0 on.
func (k *heads) qkvOf(x []float32, c, which, q0 int) operand {
	return operand{data: x[(c/k.h*k.t+q0)*3*k.d+which*k.d+c%k.h*k.hd:], rs: 3 * k.d, cs: 1}
}

// rowsOf is head c in a tensor laid out like y, rows q0 on.
func (k *heads) rowsOf(x []float32, c, q0 int) operand {
	return operand{data: x[(c/k.h*k.t+q0)*k.d+c%k.h*k.hd:], rs: k.d, cs: 1}
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
// D/H after another.
func (k *heads) pack(ws *workspace, dst []float32, o operand, n int) {
	g := gemm{isa: k.isa, b: o.transposed(), k: k.hd}
	for k0 := 0; k0 < k.hd; k0 += k.depth {
		p := panels{data: dst, step: k.nr * k.depth, stride: k.nr, k: min(k.depth, k.hd-k0)}
		g.packColumns(ws, p, k0, 0, n)
		dst = dst[k.across*p.step:]
	}
}

// against writes to s rows of a times the first n columns of keys or values that pack
// packed.
func (k *heads) against(ws *workspace, s []float32, a operand, packed []float32, rows, n int) {
	a.check(rows, k.hd)
	_ = s[(rows-1)*k.ld+n-1]
	g := gemm{isa: k.isa, a: a, c: s, ldc: k.ld, k: k.hd}
	for k0 := 0; k0 < k.hd; k0 += k.depth {
		p := panels{data: packed, step: k.nr * k.depth, stride: k.nr, k: min(k.depth, k.hd-k0)}
		g.sweep(ws, p, 0, rows, 0, n, k0, k0 > 0)
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

// weigh writes rows of weights times the first n rows of keys or values that packRows
// packed.
func (k *heads) weigh(ws *workspace, out operand, weights, packed []float32, rows, n int) {
	_, _ = weights[(rows-1)*k.ld+n-1], out.data[(rows-1)*out.rs+k.hd-1]
	g := gemm{isa: k.isa, a: operand{data: weights, rs: k.ld, cs: 1}, c: out.data, ldc: out.rs, k: n}
	for k0 := 0; k0 < n; k0 += blockK {
		p := panels{data: packed[k0*k.nr:], step: k.nr * k.t, stride: k.nr, k: min(blockK, n-k0)}
		g.sweep(ws, p, 0, rows, 0, k.hd, k0, k0 > 0)
	}
}

// wide is n rounded up to whole vectors: how far a row of scores of n elements is gone
// through.
func wide(n int) int { return work.CeilDiv(n, scoreAlign) * scoreAlign }

type attention struct{ heads }

func newAttention(n *graph.Node, on work.Target) (work.Kernel, error) {
	return &attention{headsOf(on, n, n.Op.(ops.CausalSelfAttention))}, nil
}

func (k *attention) ScratchBytes() int64 { return 0 }

func (k *attention) Run(p work.Pool, a *work.Args) error {
	k.bind(a.In[0], a.Out[0], a.Out[1], a.In[1:])
	k.run(p, k)
	return nil
}

func (k *attention) Chunk(i int) {
	c, lo, hi := k.rangeOf(i)
	if lo == hi {
		return
	}
	ws := takeWorkspace()
	defer ws.giveBack()
	room := work.CeilDiv(k.group, vec.AttendRows) * vec.AttendRows
	mem := ws.arena(k.packedSize() + k.rowsSize() + room*k.ld + 2*(k.t+room))
	keys, values, s := mem.cut(k.packedSize()), mem.cut(k.rowsSize()), mem.cut(room*k.ld)
	most, sums := mem.cut(k.t+room), mem.cut(k.t+room)
	k.pack(ws, keys, k.qkvOf(k.qkv, c, 1, 0), hi)
	k.packRows(values, k.qkvOf(k.qkv, c, 2, 0), hi)
	group := k.group
	if !k.finite(k.qkvOf(k.qkv, c, 2, 0), hi) {
		group = 1
	}
	for q0 := lo; q0 < hi; q0 += group {
		q1 := min(q0+group, hi)
		n := q1 - q0
		k.against(ws, s, k.qkvOf(k.qkv, c, 0, q0), keys, n, q1)
		k.vec.Attend(&s[0], k.ld, n, q0+1, wide(q1), k.scale, &most[q0], &sums[q0])
		for i := 0; i < n && k.drop.Drops(); i++ {
			k.drop.Apply(s[i*k.ld:][:q0+i+1], k.index(c, q0+i))
		}
		k.weigh(ws, k.rowsOf(k.y, c, q0), s, values, n, q1)
	}
	k.vec.Log(sums[lo:hi], sums[lo:hi])
	k.vec.Add(k.lse[c*k.t+lo:c*k.t+hi], most[lo:hi], sums[lo:hi])
}
