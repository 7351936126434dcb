package kernels

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Letters: B samples, T positions, D width, H heads of width D/H. One chunk is
// one head of one sample; it goes through its queries in blocks of
// attentionRows, so scratch holds that many rows of scores and never [T,T].
// The gradient computes the probabilities again from lse.
//
// A block multiplies its rows with all keys up to its last query; the scores
// beyond a row's own position are set to 0 first, so nothing finite comes
// from them.
var attentionKernels = map[string]constructor{
	"causal_attention(f32)->f32,f32":                      newAttention,
	"causal_attention(f32,i32,i32)->f32,f32":              newAttention,
	"causal_attention_grad(f32,f32,f32,f32)->f32":         newAttentionGrad,
	"causal_attention_grad(f32,f32,f32,f32,i32,i32)->f32": newAttentionGrad,
}

// attentionRows is how many queries a block has.
const attentionRows = 16

// heads is what forward and gradient share.
type heads struct {
	level          Level
	b, t, d, h, hd int
	scale          float64 // of scores, 1/sqrt(D/H)
	drop           dropper
	qkv, y, lse    []float32
	scratch        []float32
}

func headsOf(n *graph.Node, op ops.CausalSelfAttention) heads {
	s := in(n, 0).Shape
	k := heads{level: Using(), b: s[0], t: s[1], d: s[2] / 3, h: op.Heads, hd: s[2] / 3 / op.Heads, drop: newDropper(op.Key(), op.P)}
	k.scale = 1 / math.Sqrt(float64(k.hd))
	return k
}

// bind takes the addresses; scalars are step and base where there is dropout.
func (k *heads) bind(qkv, y, lse, scratch []byte, scalars [][]byte, rows int) {
	k.qkv, k.y, k.lse = floats(qkv, k.b*k.t*k.d*3), floats(y, k.b*k.t*k.d), floats(lse, k.b*k.h*k.t)
	k.scratch = floats(scratch, k.b*k.h*rows*k.t)
	if len(scalars) == 2 {
		k.drop.bind(scalars[0], scalars[1], k.h*k.t*k.t)
	}
}

// part is queries (0), keys (1) or values (2) of chunk c in a tensor laid out
// like qkv, rows q0 on.
func (k *heads) part(x []float32, c, which, q0 int) operand {
	return operand{x[(c/k.h*k.t+q0)*3*k.d+which*k.d+c%k.h*k.hd:], 3 * k.d, 1}
}

// of is the head of chunk c in a tensor laid out like y, rows q0 on.
func (k *heads) of(x []float32, c, q0 int) operand {
	return operand{x[(c/k.h*k.t+q0)*k.d+c%k.h*k.hd:], k.d, 1}
}

// transposed swaps rows and columns.
func (o operand) transposed() operand { return operand{o.data, o.cs, o.rs} }

// scores writes q k^T of queries q0..q1 and the keys before q1, unscaled.
func (k *heads) scores(ws *workspace, s []float32, c, q0, q1 int) {
	g := gemm{level: k.level, a: k.part(k.qkv, c, 0, q0), b: k.part(k.qkv, c, 1, 0).transposed(), c: s, ldc: k.t, k: k.hd}
	g.tile(ws, 0, q1-q0, 0, q1)
}

// index is the random index of key 0 for query q of chunk c.
func (k *heads) index(c, q int) uint64 {
	return k.drop.first + uint64(c/k.h)*k.drop.size + uint64((c%k.h*k.t+q)*k.t)
}

type attention struct{ heads }

func newAttention(n *graph.Node) (Kernel, error) {
	return &attention{headsOf(n, n.Op.(ops.CausalSelfAttention))}, nil
}

func (k *attention) ScratchBytes() int64 { return int64(k.b*k.h*attentionRows*k.t) * 4 }

func (k *attention) Run(p Pool, a *Args) error {
	k.bind(a.In[0], a.Out[0], a.Out[1], a.Scratch, a.In[1:], attentionRows)
	if k.t > 0 {
		do(p, k.b*k.h, k)
	}
	return nil
}

func (k *attention) Chunk(c int) {
	ws := takeWorkspace()
	defer ws.giveBack()
	s := k.scratch[c*attentionRows*k.t:][:attentionRows*k.t]
	for q0 := 0; q0 < k.t; q0 += attentionRows {
		q1 := min(q0+attentionRows, k.t)
		k.scores(ws, s, c, q0, q1)
		for q := q0; q < q1; q++ {
			row := s[(q-q0)*k.t:][:q1]
			k.lse[c*k.t+q] = attend(row[:q+1], k.scale)
			clear(row[q+1:])
			k.drop.apply(row[:q+1], k.index(c, q))
		}
		y := k.of(k.y, c, q0)
		g := gemm{level: k.level, a: operand{s, k.t, 1}, b: k.part(k.qkv, c, 2, 0), c: y.data, ldc: y.rs, k: q1}
		g.tile(ws, 0, q1-q0, 0, k.hd)
	}
}

// attend turns a row of scores into probabilities and returns its log sum exp.
func attend(row []float32, scale float64) float32 {
	m, sum := float64(rowMax(row))*scale, 0.0
	for j, v := range row {
		e := vec.Exp64(float64(v)*scale - m)
		sum += e
		row[j] = float32(e)
	}
	r := float32(1 / sum)
	for j := range row {
		row[j] *= r
	}
	return float32(m + math.Log(sum))
}

// attentionGrad: with P the probabilities, M the dropout factors, and
// delta[q] = dy[q].y[q] = sum over k of P M (dy v^T):
// dv = (P M)^T dy, ds = P (M (dy v^T) - delta), dq = ds k scale, dk = ds^T q scale.
type attentionGrad struct {
	heads
	dqkv, dy []float32
}

func newAttentionGrad(n *graph.Node) (Kernel, error) {
	op := ops.CausalSelfAttention(n.Op.(ops.CausalSelfAttentionGrad))
	return &attentionGrad{heads: headsOf(n, op)}, nil
}

func (k *attentionGrad) ScratchBytes() int64 { return int64(k.b*k.h*2*attentionRows*k.t) * 4 }

func (k *attentionGrad) Run(p Pool, a *Args) error {
	k.bind(a.In[0], a.In[1], a.In[2], a.Scratch, a.In[4:], 2*attentionRows)
	k.dqkv, k.dy = floats(a.Out[0], len(k.qkv)), floats(a.In[3], len(k.y))
	if k.t > 0 {
		do(p, k.b*k.h, k)
	}
	return nil
}

func (k *attentionGrad) Chunk(c int) {
	ws := takeWorkspace()
	defer ws.giveBack()
	s := k.scratch[c*2*attentionRows*k.t:][:2*attentionRows*k.t]
	pm, ds := s[:attentionRows*k.t], s[attentionRows*k.t:]
	dk, dv := k.part(k.dqkv, c, 1, 0), k.part(k.dqkv, c, 2, 0)
	for t := range k.t {
		clear(dk.data[t*dk.rs:][:k.hd])
		clear(dv.data[t*dv.rs:][:k.hd])
	}
	for q0 := 0; q0 < k.t; q0 += attentionRows {
		q1 := min(q0+attentionRows, k.t)
		n := q1 - q0
		dy := k.of(k.dy, c, q0)
		k.scores(ws, pm, c, q0, q1)
		g := gemm{level: k.level, a: dy, b: k.part(k.qkv, c, 2, 0).transposed(), c: ds, ldc: k.t, k: k.hd}
		g.tile(ws, 0, n, 0, q1)
		for q := q0; q < q1; q++ {
			k.row(pm[(q-q0)*k.t:][:q1], ds[(q-q0)*k.t:][:q1], c, q)
		}
		dq := k.part(k.dqkv, c, 0, q0)
		g = gemm{level: k.level, a: operand{ds, k.t, 1}, b: k.part(k.qkv, c, 1, 0), c: dq.data, ldc: dq.rs, k: q1}
		g.tile(ws, 0, n, 0, k.hd)
		g = gemm{level: k.level, a: operand{ds, 1, k.t}, b: k.part(k.qkv, c, 0, q0), c: dk.data, ldc: dk.rs, k: n, add: true}
		g.tile(ws, 0, q1, 0, k.hd)
		g = gemm{level: k.level, a: operand{pm, 1, k.t}, b: dy, c: dv.data, ldc: dv.rs, k: n, add: true}
		g.tile(ws, 0, q1, 0, k.hd)
	}
}

// row turns query q's scores into P M and its dy v^T into ds, scaled.
func (k *attentionGrad) row(pm, ds []float32, c, q int) {
	y, dy := k.of(k.y, c, q).data[:k.hd], k.of(k.dy, c, q).data[:k.hd]
	delta := 0.0
	for j, v := range y {
		delta += float64(v) * float64(dy[j])
	}
	lse, index := float64(k.lse[c*k.t+q]), k.index(c, q)
	var factors [256]float32
	for j0 := 0; j0 <= q; j0 += len(factors) {
		p, d := pm[j0:min(j0+len(factors), q+1)], ds[j0:]
		m := factors[:len(p)]
		k.drop.factors(m, index+uint64(j0))
		for j, v := range p {
			e := vec.Exp64(float64(v)*k.scale - lse)
			d[j] = float32(e * (float64(m[j])*float64(d[j]) - delta) * k.scale)
			p[j] = float32(e) * m[j]
		}
	}
	clear(pm[q+1:])
	clear(ds[q+1:])
}
