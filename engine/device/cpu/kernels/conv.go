package kernels

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Letters: N samples, C and O channels in and out, G groups, K kernel, and
// W' and H' for the output's sides. Every product is cut into output tiles of
// one group, and for y and dx of one sample.
var convKernels = map[string]constructor{
	"conv2d(f32,f32)->f32":        newConv,
	"conv2d_grad_x(f32,f32)->f32": newConvGradX,
	"conv2d_grad_w(f32,f32)->f32": newConvGradW,
}

// convM is the least rows of a tile that are worth reading an image's windows
// for once more.
const convM = 64

// conv holds what the three products of a convolution share.
type conv struct {
	n, c, o, groups int // samples, channels in, channels out
	kk              int // elements of the kernel's window, KH*KW
	px, py          int // pixels of x and of y
	isa             ISA
	grid            grid
	im              im2col
	x, w, y         []float32   // or their gradients
	then            *Epilogue   // nil if nothing follows
	direct          planeConv   // instead of a product, if not nil
	col2im          *convCol2im // likewise
	depthwise       *convDepthwise
	patches         *convPatches // what the product is of, if not nil
}

func convOf(x, w, y shape.Shape, groups int) conv {
	return conv{
		n: x[0], c: x[1], o: y[1], groups: groups,
		kk: w[2] * w[3], px: x[2] * x[3], py: y[2] * y[3],
		isa: Using(),
		im:  im2col{isa: Using(), kh: w[2], kw: w[3]},
	}
}

// perGroup are the channels in and out of a group.
func (k *conv) perGroup() (c, o int) { return k.c / k.groups, k.o / k.groups }

func (k *conv) bind(x, w, y []byte) {
	k.x, k.w, k.y = floats(x, k.n*k.c*k.px), floats(w, k.c/k.groups*k.o*k.kk), floats(y, k.n*k.o*k.py)
}

func (k *conv) follow(e Epilogue) {
	if k.then = nil; e != nil {
		k.then = &e
	}
}

// planeConv is a convolution of planes, without a matrix of windows.
type planeConv interface {
	// scratch is how many elements of scratch memory a run takes.
	scratch() int
	run(p Pool, src, w, y, scratch []float32, then *Epilogue)
}

// newPlaneConv is the fastest one for a shape, or nil. wo and wc are w's strides
// from one output and input channel of the product to the next.
func newPlaneConv(l ISA, im im2col, count, groups, cg, og, wo, wc int) planeConv {
	if d := newConvAMX(l, im, count, groups, cg, og, wo, wc); d != nil {
		return d
	}
	if d := newConvDirect(l, im, count, groups, cg, og, wo, wc); d != nil {
		return d
	}
	return nil
}

// convY is y[n,g] = w[g] * im2col(x[n,g]): O/G x H'W' over C/G*K*K.
type convY conv

func newConv(n *graph.Node) (Kernel, error) {
	op := n.Op.(ops.Conv2D)
	x, w, y := in(n, 0).Shape, in(n, 1).Shape, out(n, 0).Shape
	k := convOf(x, w, y, op.Groups)
	k.im.h, k.im.w, k.im.oh, k.im.ow = x[2], x[3], y[2], y[3]
	k.im.mul, k.im.dir, k.im.off = op.Stride, 1, -op.Pad
	k.grid = newGrid(&isaSizes[k.isa], k.n*op.Groups, k.o/op.Groups, k.py, k.c/op.Groups*k.kk, convM, false)
	cg, og := k.perGroup()
	if k.depthwise = newConvDepthwise(&k, 1); k.depthwise != nil {
		return (*convY)(&k), nil
	}
	if k.patches = newConvPatches(&k); k.patches != nil {
		k.grid = newGrid(k.isa.sizes(k.patches.format), k.n*op.Groups, k.o/op.Groups, k.py, k.c/op.Groups*k.kk, convM, false)
	} else {
		k.direct = newPlaneConv(k.isa, k.im, k.n*op.Groups, op.Groups, cg, og, cg*k.kk, k.kk)
	}
	return (*convY)(&k), nil
}

// Then implements [Follower].
func (k *convY) Then(e Epilogue) { (*conv)(k).follow(e) }

func (k *convY) ScratchBytes() int64 {
	switch {
	case k.patches != nil:
		return int64(k.patches.scratch()) * 4
	case k.direct != nil:
		return int64(k.direct.scratch()) * 4
	}
	return 0
}

func (k *convY) Run(p Pool, a *Args) error {
	(*conv)(k).bind(a.In[0], a.In[1], a.Out[0])
	if d := k.depthwise; d != nil {
		d.run(p, k.x, k.w, k.y, k.then)
		return nil
	}
	if d := k.direct; d != nil {
		d.run(p, k.x, k.w, k.y, floats(a.Scratch, d.scratch()), k.then)
		return nil
	}
	if d := k.patches; d != nil {
		d.run(p, floats(a.Scratch, d.scratch()))
	}
	do(p, k.grid.chunks(), k)
	return nil
}

func (k *convY) Chunk(i int) {
	for t, end := k.grid.cellsOf(i); t < end; t++ {
		k.tile(k.grid.cell(t))
	}
}

// tile computes rows i0..i1 and columns j0..j1 of product p.
func (k *convY) tile(p, i0, i1, j0, j1 int) {
	if k.patches != nil {
		g := k.patches.product(p)
		g.do(i0, i1, j0, j1)
		return
	}
	cg, og := (*conv)(k).perGroup()
	im := k.im
	im.src = k.x[p*cg*k.px:][:cg*k.px]
	g := gemm{
		isa: k.isa,
		a:   operand{k.w[p%k.groups*og*cg*k.kk:], cg * k.kk, 1},
		im:  &im, c: k.y[p*og*k.py:], ldc: k.py, k: cg * k.kk,
		then: k.then, row: p * og,
	}
	g.do(i0, i1, j0, j1)
}

// convX is dx[n,g] = w'[g] * im2col(dy[n,g]): C/G x HW over O/G*K*K, where w'
// is w with its channels in and out exchanged, written to scratch first. A
// stride takes [col2im].
type convX conv

func newConvGradX(n *graph.Node) (Kernel, error) {
	op := n.Op.(ops.Conv2DGradX)
	w, y, x := in(n, 0).Shape, in(n, 1).Shape, out(n, 0).Shape
	k := convOf(x, w, y, op.Groups)
	k.im.h, k.im.w, k.im.oh, k.im.ow = y[2], y[3], x[2], x[3]
	k.im.mul, k.im.dir, k.im.off = 1, -1, op.Pad
	if k.depthwise = newConvDepthwise(&k, op.Stride); k.depthwise != nil {
		return (*convX)(&k), nil
	}
	if op.Stride > 1 {
		k.col2im = newConvCol2im(&k, op.Stride, op.Pad)
		return (*convX)(&k), nil
	}
	k.grid = newGrid(&isaSizes[k.isa], k.n*op.Groups, k.c/op.Groups, k.px, k.o/op.Groups*k.kk, convM, false)
	cg, og := k.perGroup()
	k.direct = newPlaneConv(k.isa, k.im, k.n*op.Groups, op.Groups, og, cg, k.kk, cg*k.kk)
	return (*convX)(&k), nil
}

// Then implements [Follower].
func (k *convX) Then(e Epilogue) { (*conv)(k).follow(e) }

func (k *convX) ScratchBytes() int64 {
	switch {
	case k.col2im != nil || k.depthwise != nil:
		return 0
	case k.direct != nil:
		return int64(k.direct.scratch()) * 4
	}
	return int64(k.c/k.groups*k.o*k.kk) * 4
}

func (k *convX) Run(p Pool, a *Args) error {
	(*conv)(k).bind(a.Out[0], a.In[0], a.In[1])
	switch d := k.direct; {
	case k.depthwise != nil:
		k.depthwise.run(p, k.y, k.w, k.x, k.then)
		return nil
	case k.col2im != nil:
		k.col2im.run(p)
		return nil
	case d != nil:
		d.run(p, k.y, k.w, k.x, floats(a.Scratch, d.scratch()), k.then)
		return nil
	}
	t := floats(a.Scratch, len(k.w))
	cg, og := (*conv)(k).perGroup()
	for o := range k.o {
		for c := range cg {
			copy(t[((o/og*cg+c)*og+o%og)*k.kk:][:k.kk], k.w[(o*cg+c)*k.kk:])
		}
	}
	k.w = t
	do(p, k.grid.chunks(), k)
	return nil
}

func (k *convX) Chunk(i int) {
	for t, end := k.grid.cellsOf(i); t < end; t++ {
		k.tile(k.grid.cell(t))
	}
}

// tile computes rows i0..i1 and columns j0..j1 of product p.
func (k *convX) tile(p, i0, i1, j0, j1 int) {
	cg, og := (*conv)(k).perGroup()
	im := k.im
	im.src = k.y[p*og*k.py:][:og*k.py]
	g := gemm{
		isa: k.isa,
		a:   operand{k.w[p%k.groups*og*cg*k.kk:], og * k.kk, 1},
		im:  &im, c: k.x[p*cg*k.px:], ldc: k.px, k: og * k.kk,
		then: k.then, row: p * cg,
	}
	g.do(i0, i1, j0, j1)
}

// convW is dw[g] = sum over n of dy[n,g] * im2col(x[n,g]) transposed: O/G x
// C/G*K*K over H'W'. The samples' parts are added in order: by the tiles
// themselves, or where those are too few to share, as sums in scratch memory.
type convW struct {
	conv
	partials partials
	windows  *convDirectWGrad    // instead of products, if not nil
	tiles    *convAMXWGrad       // likewise
	alone    *convDepthwiseWGrad // likewise
}

func newConvGradW(n *graph.Node) (Kernel, error) {
	op := n.Op.(ops.Conv2DGradW)
	x, y, w := in(n, 0).Shape, in(n, 1).Shape, out(n, 0).Shape
	k := convW{conv: convOf(x, w, y, op.Groups)}
	k.im.h, k.im.w, k.im.oh, k.im.ow = x[2], x[3], y[2], y[3]
	k.im.mul, k.im.dir, k.im.off = op.Stride, 1, -op.Pad
	k.grid = newGrid(&isaSizes[k.isa], op.Groups, k.o/op.Groups, k.c/op.Groups*k.kk, k.n*k.py, convM, false)
	k.partials = newPartials(k.grid, k.n)
	if k.alone = newConvDepthwiseWGrad(&k.conv); k.alone == nil {
		if k.tiles = newConvAMXWGrad(&k.conv); k.tiles == nil {
			k.windows = newConvDirectWGrad(&k.conv)
		}
	}
	k.im.transposed = true
	return &k, nil
}

func (k *convW) ScratchBytes() int64 {
	switch {
	case k.alone != nil:
		return int64(k.alone.scratch()) * 4
	case k.tiles != nil:
		return int64(k.tiles.scratch()) * 4
	case k.windows != nil:
		return int64(k.windows.scratch()) * 4
	}
	return k.partials.bytes()
}

func (k *convW) Run(p Pool, a *Args) error {
	k.bind(a.In[0], a.Out[0], a.In[1])
	if k.n == 0 {
		clear(k.w)
		return nil
	}
	if d := k.alone; d != nil {
		d.run(p, k.x, k.y, k.w, floats(a.Scratch, d.scratch()))
		return nil
	}
	if d := k.tiles; d != nil {
		d.run(p, k.x, k.y, k.w, floats(a.Scratch, d.scratch()))
		return nil
	}
	if d := k.windows; d != nil {
		d.run(p, floats(a.Scratch, d.scratch()))
		return nil
	}
	k.partials.bind(k.w, a.Scratch)
	do(p, k.grid.chunks()*k.partials.count, k)
	k.partials.sum(p)
	return nil
}

func (k *convW) Chunk(i int) {
	part, i := i%k.partials.count, i/k.partials.count
	first, end, w := 0, k.n, k.w
	if k.partials.count > 1 {
		first, end, w = part, part+1, k.partials.of(part)
	}
	ws := takeWorkspace()
	for t, last := k.grid.cellsOf(i); t < last; t++ {
		group, i0, i1, j0, j1 := k.grid.cell(t)
		for s := first; s < end; s++ {
			im := k.im
			g := k.product(w, &im, group, s)
			g.add = s > first
			g.doIn(ws, i0, i1, j0, j1)
		}
	}
	ws.giveBack()
}

// product is what sample s, read through im, contributes to a group of w.
func (k *convW) product(w []float32, im *im2col, group, s int) gemm {
	cg, og := k.perGroup()
	at := s*k.groups + group
	im.src = k.x[at*cg*k.px:][:cg*k.px]
	return gemm{
		isa: k.isa,
		a:   operand{k.y[at*og*k.py:][:og*k.py], k.py, 1},
		im:  im, c: w[group*og*cg*k.kk:], ldc: cg * k.kk, k: k.py,
	}
}
