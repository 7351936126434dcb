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
	isa            ISA
	grid           grid
	fitted         gridKey  // what grid is cut for; zero if it is not
	partials       partials // of one block of K each
	k              int
	transA, transB bool
	format         format
	prepacker      prepacker
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
	form := l.formatOf(op.BF16, m, cols, k)
	s := l.sizes(form)
	g := newGrid(s, batch, m, cols, k, matmulM, op.TransA && m >= s.far)
	mm := &matmul{
		isa: l, grid: g, partials: newPartials(g, ceilDiv(k, s.depth(k))), k: k, transA: op.TransA, transB: op.TransB, format: form,
		lenA: sa.Elems(), lenB: sb.Elems(), strideA: m * k, strideB: k * cols,
	}
	mm.prepacker.set(mm)
	return mm, nil
}

// Then implements [Follower].
func (k *matmul) Then(e Epilogue) { k.partials.then = e }

func (k *matmul) ScratchBytes() int64 { return k.partials.bytes() + k.prepacker.bytes() }

func (k *matmul) Run(p Pool, a *Args) error {
	if c := (gridKey{p.Threads(), a.Cache != nil}); k.partials.count == 1 && k.fitted != c && library.Load() == nil {
		k.fitGrid(c)
	}
	g := &k.grid
	k.a, k.b = floats(a.In[0], k.lenA), floats(a.In[1], k.lenB)
	k.c = floats(a.Out[0], g.count*g.m*g.n)
	k.partials.bind(k.c, a.Scratch)
	k.prepacker.run(p, a)
	do(p, g.chunks()*k.partials.count, k)
	k.partials.sum(p)
	return nil
}

// Keeps implements [Keeper].
func (k *matmul) Keeps() (input int, bytes int64, layout string) {
	return 1, int64(k.prepacker.cacheB) * 4, fmt.Sprintf("%v %v %d x %d, transposed %v", k.isa, k.format, k.k, k.grid.n, k.transB)
}

// cut is what the best way to cut a grid depends on, beside shapes.
type gridKey struct {
	threads int
	cached  bool // B is packed in kept memory
}

// cutFor cuts the grid anew.
func (k *matmul) fitGrid(c gridKey) {
	g := k.layout()
	packsA := g.packsA() && k.prepacker.lenA == 0
	packsB := g.packsB(min(k.grid.m, maxCellRows)) && k.prepacker.lenB == 0 && !c.cached
	k.grid = k.grid.forThreads(k.isa.sizes(k.format), c.threads, k.k, packsA, packsB)
	k.fitted = c
}

func (k *matmul) Chunk(i int) {
	part, i := i%k.partials.count, i/k.partials.count
	k0, kn, c, then := 0, k.k, k.c, (*Epilogue)(nil)
	if k.partials.then != nil {
		then = &k.partials.then
	}
	if k.partials.count > 1 {
		then = nil // once the parts are added up
		depth := k.isa.sizes(k.format).depth(k.k)
		k0, c = part*depth, k.partials.of(part)
		kn = min(depth, k.k-k0)
	}
	for t, end := k.grid.cellsOf(i); t < end; t++ {
		p, i0, i1, j0, j1 := k.grid.cell(t)
		g := k.product(p, c)
		g.a.data, g.b.data, g.k = g.a.data[k0*g.a.cs:], g.b.data[k0*g.b.rs:], kn
		g.then, g.row = then, p*k.grid.m
		g.do(i0, i1, j0, j1)
	}
}

// layout is a product without its memory.
func (k *matmul) layout() gemm {
	g := gemm{isa: k.isa, a: operand{rs: k.k, cs: 1}, b: operand{rs: k.grid.n, cs: 1}, ldc: k.grid.n, k: k.k, format: k.format}
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
	g.packed = &k.prepacker
	return g
}
