package kernels

// patches are the windows of a convolution that lie side by side: its stride is
// its kernel's side, and there is no padding. They are written down first, one
// a row of C/G*K*K, for x is only put in another order by that; then y is an
// ordinary product with them.
type convPatches struct {
	*conv
	format format
	all    []float32 // [N, G, H'W', C/G*K*K]
}

// newPatches returns nil where windows do not lie side by side.
func newConvPatches(k *conv) *convPatches {
	m := &k.im
	cg, og := k.perGroup()
	if m.off != 0 || m.kh != m.mul || m.kw != m.mul || m.mul == 1 || cg == 0 {
		return nil
	}
	return &convPatches{conv: k, format: k.isa.formatOf(false, og, k.py, cg*k.kk)}
}

func (d *convPatches) scratch() int { return d.n * d.py * d.c * d.kk }

func (d *convPatches) run(p Pool, scratch []float32) {
	d.all = scratch
	do(p, d.n*d.groups*d.im.oh, d)
}

// Chunk writes a row of windows.
func (d *convPatches) Chunk(i int) {
	m := &d.im
	cg, _ := d.perGroup()
	p, r, step := i/m.oh, i%m.oh, cg*d.kk
	rows := d.all[(p*d.py+r*m.ow)*step:][:m.ow*step]
	for c := range cg {
		for kh := range m.kh {
			at := c*d.kk + kh*m.kw
			row := d.x[(p*cg+c)*d.px+(r*m.mul+kh)*m.w:][:m.ow*m.mul]
			if m.kw == 4 {
				for ; len(row) >= 4; at += step {
					*(*[4]float32)(rows[at:]) = [4]float32(row)
					row = row[4:]
				}
				continue
			}
			for ; len(row) > 0; at += step {
				copy(rows[at:], row[:m.kw])
				row = row[m.kw:]
			}
		}
	}
}

// product is y of product p.
func (d *convPatches) product(p int) gemm {
	cg, og := d.perGroup()
	k := cg * d.kk
	return gemm{
		isa: d.isa, format: d.format, k: k,
		a: operand{d.w[p%d.groups*og*k:][:og*k], k, 1},
		b: operand{d.all[p*d.py*k:][:d.py*k], 1, k},
		c: d.y[p*og*d.py:], ldc: d.py, then: d.then, row: p * og,
	}
}
