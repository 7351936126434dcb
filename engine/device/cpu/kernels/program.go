package kernels

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/elem"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// A program computes pointwise nodes one after the other on a strip of some thousand
// elements, so that values between them stay in the first cache. Each node uses the
// function of its own kernel: so fusing changes no bit.
const stripElems = 1024 // most elements of a strip

// location is where an instruction finds or puts a value: memory of the cluster, or a
// register.
type location struct {
	kind  locationKind
	index int // of the memory or the register
	// Row i of the frame reads row, or scalar, i/each mod count.
	each, count int
}

// locationKind says how a value lies in the frame.
type locationKind uint8

const (
	locMemory   locationKind = iota // memory, element by element
	locRegister                     // a register, for the strip alone
	locRow                          // memory, rows that are read several times
	locScalar                       // memory, one number for each row
)

// instr computes one node.
type instr struct {
	elem.Pointwise
	y, a, b, c location
	flat       bool // no operand is one number, or row, for several rows
}

// program is a cluster's instructions over rows of cols elements.
type program struct {
	code       []instr
	rows, cols int
	registers  int
	strip      int         // elements of a strip and of a register
	memory     [][]float32 // the cluster's inputs and then its outputs, while it runs
}

// bind takes the arguments of a run.
func (p *program) bind(a *work.Args) {
	for i, b := range a.In {
		p.memory[i] = work.Floats(b, len(b)/4)
	}
	for i, b := range a.Out {
		p.memory[len(a.In)+i] = work.Floats(b, len(b)/4)
	}
	for i := range p.code {
		if in := &p.code[i]; in.Drop != nil {
			in.Drop.Bind(a.In[in.b.index], a.In[in.c.index])
		}
	}
}

// newProgram compiles all nodes of a cluster but its head and sums.
func newProgram(on work.Target, c *fuse.Cluster) (*program, error) {
	a := allocator{on: on, c: c, register: map[*graph.Value]int{}}
	cols := c.Frame.Cols()
	p := &program{rows: c.Frame.Elems / cols, cols: cols, memory: make([][]float32, len(c.In)+len(c.Out))}
	for at, n := range c.Nodes {
		if n == c.Head || slices.Contains(c.Sums, n) {
			continue
		}
		in, err := a.instr(n, at)
		if err != nil {
			return nil, err
		}
		p.code = append(p.code, in)
	}
	p.registers, p.strip = a.most, min(stripElems, work.RegisterElems/max(1, a.most))
	return p, nil
}

// allocator gives registers to values that stay inside a cluster. It uses a register
// again once no later node reads it.
type allocator struct {
	on       work.Target
	c        *fuse.Cluster
	register map[*graph.Value]int
	free     []int
	most     int // registers there are
}

// instr compiles the node at a position of the cluster.
func (a *allocator) instr(n *graph.Node, at int) (instr, error) {
	k, err := New(n, a.on)
	if err != nil {
		return instr{}, err
	}
	f, ok := elem.PointwiseOf(k)
	if !ok {
		return instr{}, fmt.Errorf("BUG: %s is in a cluster, and is not pointwise", n.Op.Kind())
	}
	in := instr{Pointwise: f, flat: true}
	for o, operand := range []*location{&in.a, &in.b, &in.c}[:len(n.In)] {
		*operand = a.find(at, o)
		in.flat = in.flat && operand.flat()
	}
	a.release(at)
	in.y = a.put(n.Out[0])
	return in, nil
}

// flat reports whether neighbouring elements, or one number, serve a strip of several
// rows.
func (p *location) flat() bool { return p.kind <= locRegister || p.kind == locScalar && p.count == 1 }

// find is where the node at a position reads operand o.
func (a *allocator) find(at, o int) location {
	n, cols := a.c.Nodes[at], a.c.Frame.Cols()
	p := a.locate(a.c.Reads[at][o])
	s, ok := fuse.StretchOf(n.In[o].Meta.Shape, n.Out[0].Meta.Shape)
	switch {
	case !ok:
		panic(fmt.Sprintf("BUG: %v is in a cluster and stretches operand %d unevenly", n, o))
	case s.Full(a.c.Frame.Elems):
	case s.Inner == 1 && s.Count > 1:
		p.kind, p.each, p.count = locRow, 1, s.Count/cols
	default:
		p.kind, p.each, p.count = locScalar, max(1, s.Inner/cols), s.Count
	}
	return p
}

// locate is where a value lies.
func (a *allocator) locate(v *graph.Value) location {
	if r, ok := a.register[v]; ok {
		return location{kind: locRegister, index: r}
	}
	if j := slices.Index(a.c.In, v); j >= 0 {
		return location{index: j}
	}
	o := slices.Index(a.c.Out, v)
	if a.c.Head != nil && v == a.c.Head.Out[0] {
		o = a.c.Raw
	}
	if o < 0 {
		panic(fmt.Sprintf("BUG: %v is nowhere in %s", v, a.c.Name()))
	}
	return location{index: len(a.c.In) + o}
}

// release frees the registers of values that the node at a position reads last.
func (a *allocator) release(at int) {
	for _, v := range a.c.Reads[at] {
		if r, ok := a.register[v]; ok && a.c.LastReader(v) == at && !slices.Contains(a.free, r) {
			a.free = append(a.free, r)
		}
	}
}

// put is where a value is written: its memory, or a register.
func (a *allocator) put(v *graph.Value) location {
	if o := slices.Index(a.c.Out, v); o >= 0 {
		return location{index: len(a.c.In) + o}
	}
	p := location{kind: locRegister, index: a.most}
	if n := len(a.free); n > 0 {
		p.index, a.free = a.free[n-1], a.free[:n-1]
	} else {
		a.most++
	}
	a.register[v] = p.index
	return p
}

// rect is rows i0..i1 and columns j0..j1 of the frame.
type rect struct{ i0, i1, j0, j1 int }

// run computes a rect, strip by strip.
func (p *program) run(a rect) {
	var r *work.Registers
	if p.registers > 0 {
		r = work.TakeRegisters()
	}
	width := min(a.j1-a.j0, p.strip)
	height := max(1, p.strip/max(1, width))
	for i := a.i0; i < a.i1; i += height {
		for j := a.j0; j < a.j1; j += width {
			p.runStrip(r, rect{i0: i, i1: min(i+height, a.i1), j0: j, j1: min(j+width, a.j1)})
		}
	}
	if r != nil {
		r.GiveBack()
	}
}

// runStrip computes a strip, one node after the other: all rows at once where its
// operands allow that.
func (p *program) runStrip(r *work.Registers, t rect) {
	connected := t.i1-t.i0 == 1 || t.j1-t.j0 == p.cols
	for k := range p.code {
		in := &p.code[k]
		if connected && in.flat {
			in.apply(p, r, t, t.i0, (t.i1-t.i0)*(t.j1-t.j0))
			continue
		}
		for i := t.i0; i < t.i1; i++ {
			in.apply(p, r, t, i, t.j1-t.j0)
		}
	}
}

// apply computes n elements of one node, from the start of row i of a strip on.
func (in *instr) apply(p *program, r *work.Registers, t rect, i, n int) {
	y := in.y.slice(p, r, t, i, n)
	switch {
	case in.One != nil:
		in.One(y, in.a.slice(p, r, t, i, n))
	case in.Two != nil:
		in.Two(y, in.a.slice(p, r, t, i, n), in.b.slice(p, r, t, i, n))
	case in.Three != nil:
		in.Three(y, in.a.slice(p, r, t, i, n), in.b.slice(p, r, t, i, n), in.c.slice(p, r, t, i, n))
	case in.Scaled != nil:
		in.Scaled(y, in.a.slice(p, r, t, i, n), in.b.slice(p, r, t, i, n), in.c.scalar(p, i))
	case in.Drop != nil:
		in.Drop.DropFrom(y, in.a.slice(p, r, t, i, n), i*p.cols+t.j0)
	case in.Copies && in.a.kind == locScalar:
		work.Fill(y, in.a.scalar(p, i))
	case in.Copies:
		copy(y, in.a.slice(p, r, t, i, n))
	case in.b.kind == locScalar:
		in.VS(y, in.a.slice(p, r, t, i, n), in.b.scalar(p, i))
	case in.a.kind == locScalar:
		in.SV(y, in.b.slice(p, r, t, i, n), in.a.scalar(p, i))
	default:
		in.VV(y, in.a.slice(p, r, t, i, n), in.b.slice(p, r, t, i, n))
	}
}

// scalar is the number that row i reads.
func (l *location) scalar(p *program, i int) float32 {
	if l.count <= 1 {
		return p.memory[l.index][0]
	}
	return p.memory[l.index][i/l.each%l.count]
}

// slice is n elements of a value, from the start of row i of a strip on.
func (l *location) slice(p *program, r *work.Registers, t rect, i, n int) []float32 {
	switch {
	case l.kind == locRegister:
		return r.All[l.index*p.strip+(i-t.i0)*(t.j1-t.j0):][:n]
	case l.kind == locMemory:
		return p.memory[l.index][i*p.cols+t.j0:][:n]
	case l.count == 1:
		return p.memory[l.index][t.j0:][:n]
	}
	return p.memory[l.index][i%l.count*p.cols+t.j0:][:n]
}
