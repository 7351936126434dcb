package product

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var matmulKernels = work.Table{
	"matmul(f32,f32)->f32":  newMatMul,
	"matmul(f32,bf16)->f32": newMatMul,
	"matmul(f32,i8b)->f32":  newMatMul,
}

// matmul is a batch of products, each cut into cells of the output, and where those are
// too few to share, also into blocks of K.
type matmul struct {
	isa              isa.ISA
	format           format
	grid             grid
	fitted           gridFit  // what grid is cut for; zero if it is not
	partials         partials // sums of one block of K each
	prepacker        prepacker
	k                int // steps
	transA, transB   bool
	lenA, lenB       int // elements of all products' operands
	strideA, strideB int // elements from one product's operand to the next
	a, b, c          []float32
	stored           *stored // B, in place of b; nil: it is float32
}

// matmulRows is the fewest rows of a cell that are worth reading B for once more.
const matmulRows = 32

func newMatMul(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.MatMul)
	sa, sb, sc := work.In(n, 0).Shape, work.In(n, 1).Shape, work.Out(n, 0).Shape
	m, cols, k := sc.Dim(-2), sc.Dim(-1), sa.Dim(-1)
	if op.TransA {
		k = sa.Dim(-2)
	}
	batch := sc[:len(sc)-2].Elems()
	if len(sb) == 2 && !op.TransA { // all rows of a against one b
		m, batch = m*batch, 1
	}
	rows, across := m, cols
	if w := n.Whole(); w != n { // some of the rows, or of the columns, of one product
		all := work.Out(w, 0).Shape
		rows, across = all[:len(all)-1].Elems(), all.Dim(-1)
	}
	f := formatOf(on, op.BF16, rows, across, k)
	s := sizesOf(on.ISA, f)
	b := newStored(work.In(n, 1), op.TransB, on.ISA)
	g := newGrid(b.cells(s), batch, m, cols, k, matmulRows, op.TransA && m >= s.far)
	mm := &matmul{
		isa: on.ISA, format: f, grid: g, partials: newPartials(g, work.CeilDiv(k, s.depth(k))),
		k: k, transA: op.TransA, transB: op.TransB,
		lenA: sa.Elems(), lenB: sb.Elems(), strideA: m * k, strideB: k * cols, stored: b,
	}
	mm.prepacker = newPrepacker(mm.layout(), g, mm.partials.count > 1 || b != nil)
	return mm, nil
}

// Then implements [work.Follower].
func (k *matmul) Then(e work.Epilogue) { k.partials.then = e }

func (k *matmul) ScratchBytes() int64 { return k.partials.bytes() + k.prepacker.bytes() }

func (k *matmul) Run(p work.Pool, a *work.Args) error {
	if f := (gridFit{p.Threads(), a.Cache != nil}); k.partials.count == 1 && k.fitted != f {
		k.fitGrid(f)
	}
	g := &k.grid
	k.a = work.Floats(a.In[0], k.lenA)
	if k.stored != nil {
		k.stored.data = a.In[1]
	} else {
		k.b = work.Floats(a.In[1], k.lenB)
	}
	k.c = work.Floats(a.Out[0], g.count*g.m*g.n)
	k.partials.bind(k.c, work.Floats(a.Scratch, int(k.partials.bytes()/4)))
	if units := k.prepacker.bind(a); units > 0 {
		k.prepacker.run(p, units, k.product(0, k.c))
	}
	work.Do(p, g.chunks()*k.partials.count, k)
	k.partials.sum(p)
	return nil
}

// MatMulPackCache describes the input that k can keep packed. Its Bytes are 0 where there
// is none.
func MatMulPackCache(k work.Kernel) work.PackCache {
	if m, ok := k.(*matmul); ok {
		return m.packCache()
	}
	return work.PackCache{}
}

// packCache describes the packed B.
func (k *matmul) packCache() work.PackCache {
	return work.PackCache{
		Input: 1, Bytes: int64(k.prepacker.cacheB) * 4,
		Layout: fmt.Sprintf("%v %v %d x %d, transposed %v", k.isa, k.format, k.k, k.grid.n, k.transB),
	}
}

// gridFit is what the best way to cut a grid depends on in addition to shapes.
type gridFit struct {
	threads int
	cached  bool // B is packed in cache memory
}

// fitGrid cuts the grid for new conditions.
func (k *matmul) fitGrid(f gridFit) {
	g := k.layout()
	packsA := g.packsA() && k.prepacker.lenA == 0
	packsB := g.packsB(min(k.grid.m, maxCellRows)) && k.prepacker.lenB == 0 && !f.cached
	k.grid = k.grid.forThreads(k.stored.cells(sizesOf(k.isa, k.format)), f.threads, k.k, packsA, packsB)
	k.fitted = f
}

// Chunk computes some cells: over all steps, or over one block of K into its partial sum.
func (k *matmul) Chunk(i int) {
	part, i := i%k.partials.count, i/k.partials.count
	k0, kn, c, then := 0, k.k, k.c, (*work.Epilogue)(nil)
	if k.partials.then != nil {
		then = &k.partials.then
	}
	if k.partials.count > 1 {
		then = nil // follows the sum of the partial sums
		depth := sizesOf(k.isa, k.format).depth(k.k)
		k0, c = part*depth, k.partials.of(part)
		kn = min(depth, k.k-k0)
	}
	for t, end := k.grid.cellsOf(i); t < end; t++ {
		p, i0, i1, j0, j1 := k.grid.cell(t)
		g := k.product(p, c)
		g.a.data, g.k = g.a.data[k0*g.a.cs:], kn
		g.then, g.row = then, p*k.grid.m
		if k.stored != nil {
			k.stored.do(g, i0, i1, j0, j1, k0)
			continue
		}
		g.b.data = g.b.data[k0*g.b.rs:]
		switch {
		case g.isSingle(i1-i0, k.grid.m):
			g.doSingle(j0, j1)
		case g.isFew(i1-i0, k.grid.m):
			g.doFew(i1-i0, j0, j1)
		default:
			g.do(i0, i1, j0, j1)
		}
	}
}

// layout is a product without its memory.
func (k *matmul) layout() gemm {
	g := gemm{
		isa: k.isa, format: k.format, ldc: k.grid.n, k: k.k,
		a: operand{rs: k.k, cs: 1}, b: operand{rs: k.grid.n, cs: 1},
	}
	if k.transA {
		g.a.rs, g.a.cs = 1, k.grid.m
	}
	if k.transB {
		g.b.rs, g.b.cs = 1, k.k
	}
	return g
}

// product is product p of the batch, into c.
func (k *matmul) product(p int, c []float32) gemm {
	g, size := k.layout(), k.grid.m*k.grid.n
	g.a.data = k.a[p*k.strideA:][:k.strideA]
	if k.stored == nil {
		g.b.data = k.b[p*k.strideB:][:k.strideB]
	}
	g.c = c[p*size:][:size]
	g.packed = &k.prepacker.packed
	return g
}
