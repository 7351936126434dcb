package product

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var cachedAttentionKernels = work.Table{"cached_attention(f32,f32,f32,i32)->f32": newCachedAttention}

// Letters as in attention.go; C positions of a cache, P of them before the chunk, N rows
// of the chunk that count.
//
// A task's chunk is one head of one sequence:
//
//  1. Scores [N,P+N]: queries times cached keys, and times the chunk's own keys.
//  2. Softmax of each row up to its own position; later scores become 0.
//  3. Output [N,D/H]: those times cached values, plus times the chunk's own values.
//
// Values of later rows of the chunk are multiplied with 0: where one is not finite, so
// are the rows before it.
type cachedAttention struct {
	isa                  isa.ISA
	vec                  *vec.Funcs
	b, t, c, d, h, hd    int
	scale                float32 // of scores, 1/sqrt(D/H)
	qkv, keys, values, y []float32
	extent               []int32
}

// fewRows is the most rows for which a product with keys packs none of them: a vector
// product of a row and a key then takes less time than to move the key.
const fewRows = 3

func newCachedAttention(n *graph.Node, on work.Target) (work.Kernel, error) {
	s, h := work.In(n, 0).Shape, n.Op.(ops.CachedAttention).Heads
	k := &cachedAttention{isa: on.ISA, vec: on.ISA.Vec(), b: s[0], t: s[1], c: work.In(n, 1).Shape[1], d: s[2] / 3, h: h, hd: s[2] / 3 / h}
	k.scale = float32(1 / math.Sqrt(float64(k.hd)))
	return k, nil
}

func (k *cachedAttention) ScratchBytes() int64 { return 0 }

func (k *cachedAttention) Run(p work.Pool, a *work.Args) error {
	k.extent = work.Ints(a.In[3], 2*k.b)
	for b := range k.b {
		if err := ops.CheckExtent(k.extent[2*b], k.extent[2*b+1], k.t, k.c); err != nil {
			return err
		}
	}
	k.qkv, k.y = work.Floats(a.In[0], k.b*k.t*k.d*3), work.Floats(a.Out[0], k.b*k.t*k.d)
	k.keys, k.values = work.Floats(a.In[1], k.b*k.c*k.d), work.Floats(a.In[2], k.b*k.c*k.d)
	work.Do(p, k.b*k.h, k)
	return nil
}

func (k *cachedAttention) Chunk(i int) {
	b, head := i/k.h, i%k.h
	p, n := int(k.extent[2*b]), int(k.extent[2*b+1])
	ws := takeWorkspace()
	defer ws.giveBack()
	ld, room := wide(p+n)+scoreAlign, work.CeilDiv(n, vec.AttendRows)*vec.AttendRows
	mem := ws.arena(room*ld + 2*room)
	s, most, sums := mem.cut(room*ld), mem.cut(room), mem.cut(room)

	queries := k.own(b, head, 0)
	k.against(ws, s, ld, queries, k.cached(k.keys, b, head), n, p)
	k.against(ws, s[p:], ld, queries, k.own(b, head, 1), n, n)
	k.vec.Attend(&s[0], ld, n, p+1, wide(p+n), k.scale, &most[0], &sums[0])
	k.weigh(ws, s, ld, k.cached(k.values, b, head), k.yOf(b, head), n, p, false)
	k.weigh(ws, s[p:], ld, k.own(b, head, 2), k.yOf(b, head), n, n, true)
	for row := n; row < k.t; row++ {
		clear(k.yOf(b, head)[row*k.d:][:k.hd])
	}
}

// own is queries (0), keys (1) or values (2) of a head in a sequence's chunk.
func (k *cachedAttention) own(b, head, which int) operand {
	return operand{data: k.qkv[b*k.t*3*k.d+which*k.d+head*k.hd:], rs: 3 * k.d, cs: 1}
}

// cached is the rows of a head in a sequence's cache.
func (k *cachedAttention) cached(cache []float32, b, head int) operand {
	return operand{data: cache[b*k.c*k.d+head*k.hd:], rs: k.d, cs: 1}
}

// yOf is the output of a head, rows of D elements apart.
func (k *cachedAttention) yOf(b, head int) []float32 { return k.y[b*k.t*k.d+head*k.hd:] }

// against writes to s the scores of rows of queries with n keys.
func (k *cachedAttention) against(ws *workspace, s []float32, ld int, queries, keys operand, rows, n int) {
	if rows > fewRows {
		g := gemm{isa: k.isa, a: queries, b: keys.transposed(), c: s, ldc: ld, k: k.hd}
		g.doIn(ws, 0, rows, 0, n)
		return
	}
	for r := range rows {
		q := queries.data[r*queries.rs:][:k.hd]
		for j := range n {
			s[r*ld+j] = float32(k.vec.Dot(q, keys.data[j*keys.rs:][:k.hd]))
		}
	}
}

// weigh writes, or adds, rows of weights times n values.
func (k *cachedAttention) weigh(ws *workspace, s []float32, ld int, values operand, y []float32, rows, n int, add bool) {
	g := gemm{isa: k.isa, a: operand{data: s, rs: ld, cs: 1}, b: values, c: y, ldc: k.d, k: n, add: add}
	g.doIn(ws, 0, rows, 0, k.hd)
}
