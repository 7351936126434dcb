package ref

import (
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var convolutions = map[string]kernel{
	"conv2d":        of(conv),
	"conv2d_grad_x": of(convGradX),
	"conv2d_grad_w": of(convGradW),
}

func conv(o ops.Conv2D, in, out []Array) {
	in = convFactors(o, in)
	x, w, y, d := in[0], in[1], out[0], o.Apart()
	eachRow(o, x.Meta.Shape, w.Meta.Shape, y.Meta.Shape, func(ix, iw, iy, n int) {
		for i := range n {
			y.F[iy] += x.F[ix+i*d] * w.F[iw+i]
		}
	})
}

func convGradX(o ops.Conv2DGradX, in, out []Array) {
	in = convFactors(o.Of, in)
	w, dy, dx, d := in[0], in[1], out[0], o.Of.Apart()
	eachRow(o.Of, dx.Meta.Shape, w.Meta.Shape, dy.Meta.Shape, func(ix, iw, iy, n int) {
		for i := range n {
			dx.F[ix+i*d] += dy.F[iy] * w.F[iw+i]
		}
	})
}

func convGradW(o ops.Conv2DGradW, in, out []Array) {
	in = convFactors(o.Of, in)
	x, dy, dw, d := in[0], in[1], out[0], o.Of.Apart()
	eachRow(o.Of, x.Meta.Shape, dw.Meta.Shape, dy.Meta.Shape, func(ix, iw, iy, n int) {
		for i := range n {
			dw.F[iw+i] += dy.F[iy] * x.F[ix+i*d]
		}
	})
}

// convFactors are both factors as o multiplies them.
func convFactors(o ops.Conv2D, in []Array) []Array {
	if !o.BF16 {
		return in
	}
	return []Array{roundBF16(in[0]), roundBF16(in[1])}
}

// eachRow calls f for every product of a convolution, a row of the window at a
// time: y[iy] += x[ix+i*d] * w[iw+i] for i < n, where d is [ops.Conv2D.Apart]. It leaves
// padding out.
func eachRow(o ops.Conv2D, x, w, y shape.Shape, f func(ix, iw, iy, n int)) {
	perGroup, d := y[1]/o.Groups, o.Apart()
	each(y, func(iy int, p []int) {
		first := p[1] / perGroup * w[1] // the group's first input channel
		// The window begins at row top and column left of x; its rows from r to
		// bottom and its columns from l to right lie inside x.
		top, left := p[2]*o.Stride-o.Pad, p[3]*o.Stride-o.Pad
		bottom, l, right := min(w[2], ceil(x[2]-top, d)), ceil(-left, d), min(w[3], ceil(x[3]-left, d))
		if l >= right {
			return
		}
		for c := range w[1] {
			for r := ceil(-top, d); r < bottom; r++ {
				ix := ((p[0]*x[1]+first+c)*x[2]+top+r*d)*x[3] + left + l*d
				f(ix, ((p[1]*w[1]+c)*w[2]+r)*w[3]+l, iy, right-l)
			}
		}
	})
}

// ceil is n/d rounded up, and at least 0.
func ceil(n, d int) int { return max(0, (n+d-1)/d) }
