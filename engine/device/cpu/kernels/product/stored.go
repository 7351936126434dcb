package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/shape"
)

// stored is a B that is stored in bfloat16 or int8: see [shape.DType.Stored]. A product of few rows waits for B
// to come from memory, and this one comes in half or a quarter of the bytes. With one row of A and vectors, it is widened in
// registers. Otherwise pieces of B are widened in a cache, and multiplied as float32 is. The sums are those with the
// whole matrix in float32, in the same order: they have the same bits.
type stored struct {
	vec    *vec.Funcs
	dtype  shape.DType
	width  int  // elements of a row
	pitch  int  // bytes of one
	turned bool // B is transposed: its rows are columns of the product
	data   []byte
}

// newStored is a B that is stored as m says; nil for float32.
func newStored(m shape.Meta, turned bool, set isa.ISA) *stored {
	if !m.DType.Stored() {
		return nil
	}
	_, width := m.Rows()
	row := shape.Meta{DType: m.DType, Shape: shape.Of(width)}
	return &stored{vec: set.Vec(), dtype: m.DType, width: width, pitch: int(row.Bytes()), turned: turned}
}

// Columns of a piece: its rows should fill a line when they lie in order, and the whole piece the second cache at most.
const (
	storedColumns = 256
	storedRows    = 16 // of a transposed B
)

// do computes rows i0..i1 and columns j0..j1 of g's C. g's A begins at step k0 of all.
func (s *stored) do(g gemm, i0, i1, j0, j1, k0 int) {
	then := g.then
	g.then, g.packed = nil, nil
	ws := takeWorkspace()
	columns := storedColumns
	if s.turned {
		columns = storedRows
	}
	for j := j0; j < j1; {
		end := min(j1, (j/columns+1)*columns)
		s.columns(ws, g, i0, i1, j, end, k0)
		if then != nil {
			(*then).After(g.row+i0, g.row+i1, j, end)
		}
		j = end
	}
	ws.giveBack()
}

// columns computes rows i0..i1 of columns j..end, a block of K after the other.
func (s *stored) columns(ws *workspace, g gemm, i0, i1, j, end, k0 int) {
	if g.k == 0 {
		g.doIn(ws, i0, i1, j, end)
		return
	}
	depth := g.depth()
	for k := 0; k < g.k; k += depth {
		part, from := g, j
		part.k, part.add, part.a.data = min(depth, g.k-k), k > 0, g.a.data[k*g.a.cs:]
		if i0 == 0 && i1 == 1 {
			from = s.single(&part, j, end, k0+k)
		}
		if from < end {
			part.c, part.b = g.c[from:], s.widened(ws, k0+k, part.k, from, end-from)
			part.doPiece(i0, i1, end-from)
		}
	}
}

// single computes as many columns as it can, from j on, of one row over the steps of g, which begin at step k of all. It
// returns the first column that is left.
func (s *stored) single(g *gemm, j, end, k int) int {
	if g.format != formatFloat || g.sizes().packs || g.a.cs != 1 {
		return j
	}
	add, unit, rows, columns := 0, shape.BlockElems, singleInt8Rows, singleInt8Columns
	if s.dtype == shape.BFloat16 {
		unit, rows, columns = depthStep, singleBF16Rows, singleBF16Columns
	}
	if g.add {
		add = 1
	}
	g.a.check(1, g.k)
	switch {
	case s.turned && k%unit == 0 && g.k%unit == 0:
		_ = s.data[(end-1)*s.pitch+s.offset(k+g.k)-1]
		for ; j+rowsAtOnce <= end; j += rowsAtOnce {
			rows(g.isa, &g.c[j:][:rowsAtOnce][0], &s.data[j*s.pitch+s.offset(k)], s.pitch, &g.a.data[0], g.k, add)
		}
	case !s.turned && j%unit == 0:
		_ = s.data[(k+g.k)*s.pitch-1]
		for ; j+columnsAtOnce <= end; j += columnsAtOnce {
			columns(g.isa, &g.c[j:][:columnsAtOnce][0], &s.data[k*s.pitch+s.offset(j)], s.pitch, &g.a.data[0], g.k, add)
		}
	}
	return j
}

// offset is the bytes of a row before element i, the first of a block.
func (s *stored) offset(i int) int {
	if s.dtype == shape.BFloat16 {
		return 2 * i
	}
	return i / shape.BlockElems * shape.BlockBytes
}

// cells are the measures by which a grid is cut: the columns of its cells begin at a block.
func (s *stored) cells(of *sizes) *sizes {
	if s == nil || s.turned {
		return of
	}
	c := *of
	c.nr = columnsAtOnce
	return &c
}

// doPiece computes rows i0..i1 and the first n columns of a product of one block of K.
func (g *gemm) doPiece(i0, i1, n int) {
	if !g.isSingle(i1-i0, i1) {
		g.do(i0, i1, 0, n)
		return
	}
	wide := g.singleWidth()
	whole := n / wide * wide
	for j := 0; j < whole; j += wide {
		g.single(j)
	}
	g.do(0, 1, whole, n)
}

// widened is steps k..k+kn and columns j..j+n of B as float32, in ws.
func (s *stored) widened(ws *workspace, k, kn, j, n int) operand {
	row, rows, from, length := k, kn, j, n
	if s.turned {
		row, rows, from, length = j, n, k, kn
	}
	first := from / shape.BlockElems * shape.BlockElems // a block is widened from its beginning on
	length += from - first
	apart := (length + line - 1) / line * line
	memory := ws.b[:rows*apart] // packing takes a workspace of its own
	for i := range rows {
		s.widen(memory[i*apart:][:length], row+i, first)
	}
	b := operand{data: memory[from-first:], rs: apart, cs: 1}
	if s.turned {
		return b.transposed()
	}
	return b
}

// widen is elements of a row from one on, the first of a block.
func (s *stored) widen(y []float32, row, from int) {
	x := s.data[row*s.pitch:][:s.pitch]
	if s.dtype == shape.BFloat16 {
		s.vec.Widen(y, shape.View[uint16](x)[from:][:len(y)])
		return
	}
	s.vec.WidenInt8(y, x[s.offset(from):])
}
