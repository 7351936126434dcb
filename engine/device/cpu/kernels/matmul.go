package kernels

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var matmulKernels = map[string]constructor{"matmul(f32,f32)->f32": newMatMul}

// matmul is a batch of products, each cut into tiles of the output, and where
// those are too few to share, also into blocks of K.
type matmul struct {
	level          Level
	grid           grid
	cut            cut   // what grid is cut for; zero if it is not
	parts          parts // of one block of K each
	k              int
	transA, transB bool
	form           form
	packer         packer
	lenA, lenB     int // elements of a whole operand
	strideA        int // elements from one product's operand to the next
	strideB        int
	a, b, c        []float32
}

// matmulM is the least rows of a tile that are worth reading B for once more.
const matmulM = 32

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
	l := Using()
	form := l.formOf(op.BF16, m, cols, k)
	s := l.sizes(form)
	g := newGrid(s, batch, m, cols, k, matmulM, op.TransA && m >= s.far)
	mm := &matmul{
		level: l, grid: g, parts: newParts(g, chunks(k, s.depth(k))), k: k, transA: op.TransA, transB: op.TransB, form: form,
		lenA: sa.Elems(), lenB: sb.Elems(), strideA: m * k, strideB: k * cols,
	}
	mm.packer.set(mm)
	return mm, nil
}

// Then implements [Follower].
func (k *matmul) Then(e Epilogue) { k.parts.then = e }

func (k *matmul) ScratchBytes() int64 { return k.parts.bytes() + k.packer.bytes() }

func (k *matmul) Run(p Pool, a *Args) error {
	if c := (cut{p.Threads(), a.Kept != nil}); k.parts.count == 1 && k.cut != c && library.Load() == nil {
		k.cutFor(c)
	}
	g := &k.grid
	k.a, k.b = floats(a.In[0], k.lenA), floats(a.In[1], k.lenB)
	k.c = floats(a.Out[0], g.count*g.m*g.n)
	k.parts.bind(k.c, a.Scratch)
	k.packer.run(p, a)
	do(p, g.chunks()*k.parts.count, k)
	k.parts.sum(p)
	return nil
}

// Keeps implements [Keeper].
func (k *matmul) Keeps() (input int, bytes int64, layout string) {
	return 1, int64(k.packer.keepB) * 4, fmt.Sprintf("%v %v %d x %d, transposed %v", k.level, k.form, k.k, k.grid.n, k.transB)
}

// cut is what the best way to cut a grid depends on, beside shapes.
type cut struct {
	threads int
	kept    bool // B is packed in kept memory
}

// cutFor cuts the grid anew.
func (k *matmul) cutFor(c cut) {
	g := k.layout()
	packsA := g.packsA() && k.packer.lenA == 0
	packsB := g.packsB(min(k.grid.m, largestTileM)) && k.packer.lenB == 0 && !c.kept
	k.grid = k.grid.forThreads(k.level.sizes(k.form), c.threads, k.k, packsA, packsB)
	k.cut = c
}

func (k *matmul) Chunk(i int) {
	part, i := i%k.parts.count, i/k.parts.count
	k0, kn, c, then := 0, k.k, k.c, (*Epilogue)(nil)
	if k.parts.then != nil {
		then = &k.parts.then
	}
	if k.parts.count > 1 {
		then = nil // once the parts are added up
		depth := k.level.sizes(k.form).depth(k.k)
		k0, c = part*depth, k.parts.of(part)
		kn = min(depth, k.k-k0)
	}
	for t, end := k.grid.of(i); t < end; t++ {
		p, i0, i1, j0, j1 := k.grid.at(t)
		g := k.product(p, c)
		g.a.data, g.b.data, g.k = g.a.data[k0*g.a.cs:], g.b.data[k0*g.b.rs:], kn
		g.then, g.row = then, p*k.grid.m
		g.do(i0, i1, j0, j1)
	}
}

// layout is a product without its memory.
func (k *matmul) layout() gemm {
	g := gemm{level: k.level, a: operand{rs: k.k, cs: 1}, b: operand{rs: k.grid.n, cs: 1}, ldc: k.grid.n, k: k.k, form: k.form}
	if k.transA {
		g.a.rs, g.a.cs = 1, k.grid.m
	}
	if k.transB {
		g.b.rs, g.b.cs = 1, k.k
	}
	return g
}

// product is number p of the batch, into c.
func (k *matmul) product(p int, c []float32) gemm {
	g, size := k.layout(), k.grid.m*k.grid.n
	g.a.data, g.b.data = k.a[p*k.strideA:][:k.strideA], k.b[p*k.strideB:][:k.strideB]
	g.c = c[p*size:][:size]
	g.whole = &k.packer
	return g
}
