package kernels

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var matmulKernels = map[string]constructor{"matmul(f32,f32)->f32": newMatMul}

// matmul is a batch of products, each cut into tiles of the output.
type matmul struct {
	level          Level
	grid           grid
	k              int
	transA, transB bool
	lenA, lenB     int // elements of a whole operand
	strideA        int // elements from one product's operand to the next
	strideB        int
	a, b, c        []float32
}

func newMatMul(n *graph.Node) (Kernel, error) {
	op := n.Op.(ops.MatMul)
	sa, sb, sc := in(n, 0).Shape, in(n, 1).Shape, out(n, 0).Shape
	m, cols, k := sc.Dim(-2), sc.Dim(-1), sa.Dim(-1)
	if op.TransA {
		k = sa.Dim(-2)
	}
	batch := sc[:len(sc)-2].Elems()
	if len(sb) == 2 && !op.TransA { // all rows of a against one b
		m, batch = m*batch, 1
	}
	return &matmul{
		level: Using(), grid: newGrid(Using(), batch, m, cols, k, packRows, op.TransA && m >= packStep), k: k, transA: op.TransA, transB: op.TransB,
		lenA: sa.Elems(), lenB: sb.Elems(), strideA: m * k, strideB: k * cols,
	}, nil
}

func (k *matmul) ScratchBytes() int64 { return 0 }

func (k *matmul) Run(p Pool, a *Args) error {
	g := &k.grid
	k.a, k.b = floats(a.In[0], k.lenA), floats(a.In[1], k.lenB)
	k.c = floats(a.Out[0], g.count*g.m*g.n)
	do(p, g.chunks(), k)
	return nil
}

func (k *matmul) Chunk(i int) {
	for t, end := k.grid.of(i); t < end; t++ {
		p, i0, i1, j0, j1 := k.grid.at(t)
		g := k.product(p)
		g.do(i0, i1, j0, j1)
	}
}

// product is number p of the batch.
func (k *matmul) product(p int) gemm {
	m, n := k.grid.m, k.grid.n
	g := gemm{
		level: k.level,
		a:     operand{k.a[p*k.strideA:][:k.strideA], k.k, 1},
		b:     operand{k.b[p*k.strideB:][:k.strideB], n, 1},
		c:     k.c[p*m*n:][:m*n], ldc: n, k: k.k,
	}
	if k.transA {
		g.a.rs, g.a.cs = 1, m
	}
	if k.transB {
		g.b.rs, g.b.cs = 1, k.k
	}
	return g
}
