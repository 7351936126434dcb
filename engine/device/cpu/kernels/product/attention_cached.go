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

// Letters as in attention.go; C positions of a cache, P of them before the chunk that its
// first row sees, N rows of the chunk that count.
//
// A task's chunk is one head of queries of one sequence:
//
//  1. Scores [N,P+N]: queries times cached keys, and times the chunk's own keys.
//  2. Softmax of what each row sees, up to its own position; other scores become 0.
//  3. Output [N,S]: those times cached values, plus times the chunk's own values.
//
// Values that a row does not see are multiplied with 0: where one is not finite, so is the
// row.
type cachedAttention struct {
	op                   ops.Attention
	isa                  isa.ISA
	vec                  *vec.Funcs
	places               int // of the caches
	b, t, c, h, g, hd    int
	width                int     // of qkv
	scale                float32 // of scores, 1/sqrt(S)
	qkv, keys, values, y []float32
	extents              []int32
}

// fewRows is the most rows for which a product with keys packs none of them: a vector
// product of a row and a key then takes less time than to move the key.
const fewRows = 3

func newCachedAttention(n *graph.Node, on work.Target) (work.Kernel, error) {
	s, op := work.In(n, 0).Shape, n.Op.(ops.CachedAttention).Whole()
	k := &cachedAttention{op: op, isa: on.ISA, vec: on.ISA.Vec(), b: s[0], t: s[1], places: work.In(n, 1).Shape[0], c: work.In(n, 1).Shape[1], width: s[2]}
	k.h, k.g, k.hd = op.Heads, op.Groups(), op.Size(s[2])
	k.scale = float32(1 / math.Sqrt(float64(k.hd)))
	return k, nil
}

func (k *cachedAttention) ScratchBytes() int64 { return 0 }

func (k *cachedAttention) Run(p work.Pool, a *work.Args) error {
	k.extents = work.Ints(a.In[3], 3*k.b)
	for b := range k.b {
		if err := ops.ExtentOf(k.extents, b).Check(k.t, k.c, k.places); err != nil {
			return err
		}
	}
	k.qkv, k.y = work.Floats(a.In[0], k.b*k.t*k.width), work.Floats(a.Out[0], k.b*k.t*k.h*k.hd)
	k.keys, k.values = work.Floats(a.In[1], k.places*k.c*k.g*k.hd), work.Floats(a.In[2], k.places*k.c*k.g*k.hd)
	work.Do(p, k.b*k.h, k)
	return nil
}

func (k *cachedAttention) Chunk(i int) {
	b, head := i/k.h, i%k.h
	at := ops.ExtentOf(k.extents, b)
	before, n := at.Position, at.Count
	first, _ := k.op.Seen(before, before+n) // of what the rows see
	p := before - first
	factors := 0
	if k.op.BF16 {
		factors = n * k.hd
	}
	ws := takeWorkspace()
	defer ws.giveBack()
	ld, room := wide(p+n)+scoreAlign, work.CeilDiv(n, vec.AttendRows)*vec.AttendRows
	mem := ws.arena(room*ld + 2*room + 3*factors)
	s, most, sums := mem.cut(room*ld), mem.cut(room), mem.cut(room)

	var own [3]operand // queries, keys and values, as products take them
	for which := range own {
		rows := k.own(b, head, which)
		if own[which] = rows; k.op.BF16 {
			own[which] = operand{data: mem.cut(factors), rs: k.hd, cs: 1}
			for row := range n {
				round(k.isa, own[which].data[row*k.hd:][:k.hd], rows.data[row*rows.rs:][:k.hd])
			}
		}
	}
	queries := own[0]
	k.against(ws, s, ld, queries, k.cached(k.keys, at.Place, head, first), n, p)
	k.against(ws, s[p:], ld, queries, own[1], n, n)
	for row := range n {
		from, _ := k.op.Seen(before+row, before+n)
		fill(s[row*ld:][:from-first], never)
	}
	k.vec.Attend(&s[0], ld, n, p+1, wide(p+n), k.scale, &most[0], &sums[0])
	for row := range n {
		if k.op.BF16 {
			round(k.isa, s[row*ld:][:p+n], s[row*ld:][:p+n])
		}
	}
	k.weigh(ws, s, ld, k.cached(k.values, at.Place, head, first), k.yOf(b, head), n, p, false)
	k.weigh(ws, s[p:], ld, own[2], k.yOf(b, head), n, n, true)
	for row := n; row < k.t; row++ {
		clear(k.yOf(b, head)[row*k.h*k.hd:][:k.hd])
	}
}

// own is the queries (0) of a head in a sequence's chunk, or the keys (1) or values (2) that
// it takes.
func (k *cachedAttention) own(b, head, which int) operand {
	at := head
	if which > 0 {
		at = k.h + (which-1)*k.g + head/(k.h/k.g)
	}
	return operand{data: k.qkv[b*k.t*k.width+at*k.hd:], rs: k.width, cs: 1}
}

// cached is the rows that a head takes of a place of a cache, from the first on.
func (k *cachedAttention) cached(cache []float32, place, head, first int) operand {
	d := k.g * k.hd
	return operand{data: cache[(place*k.c+first)*d+head/(k.h/k.g)*k.hd:], rs: d, cs: 1}
}

// yOf is the output of a head, whose rows are as far apart as all heads are wide.
func (k *cachedAttention) yOf(b, head int) []float32 { return k.y[(b*k.t*k.h+head)*k.hd:] }

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
	g := gemm{isa: k.isa, a: operand{data: s, rs: ld, cs: 1}, b: values, c: y, ldc: k.h * k.hd, k: n, add: add}
	g.doIn(ws, 0, rows, 0, k.hd)
}
