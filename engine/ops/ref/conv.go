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
	x, w, y := in[0], in[1], out[0]
	eachRow(o, x.Meta.Shape, w.Meta.Shape, y.Meta.Shape, func(ix, iw, iy, n int) {
		for i := range n {
			y.F[iy] += x.F[ix+i] * w.F[iw+i]
		}
	})
}

func convGradX(o ops.Conv2DGradX, in, out []Array) {
	w, dy, dx := in[0], in[1], out[0]
	c := ops.Conv2D{Stride: o.Stride, Pad: o.Pad, Groups: o.Groups}
	eachRow(c, dx.Meta.Shape, w.Meta.Shape, dy.Meta.Shape, func(ix, iw, iy, n int) {
		for i := range n {
			dx.F[ix+i] += dy.F[iy] * w.F[iw+i]
		}
	})
}

func convGradW(o ops.Conv2DGradW, in, out []Array) {
	x, dy, dw := in[0], in[1], out[0]
	c := ops.Conv2D{Stride: o.Stride, Pad: o.Pad, Groups: o.Groups}
	eachRow(c, x.Meta.Shape, dw.Meta.Shape, dy.Meta.Shape, func(ix, iw, iy, n int) {
		for i := range n {
			dw.F[iw+i] += dy.F[iy] * x.F[ix+i]
		}
	})
}

// eachRow calls f for every product of a convolution, a row of the window at a
// time: y[iy] += x[ix+i] * w[iw+i] for i < n. It leaves padding out.
func eachRow(o ops.Conv2D, x, w, y shape.Shape, f func(ix, iw, iy, n int)) {
	perGroup := y[1] / o.Groups
	each(y, func(iy int, p []int) {
		first := p[1] / perGroup * w[1] // the group's first input channel
		// The window begins at row top and column left of x; its rows from r to
		// bottom and its columns from l to right lie inside x.
		top, left := p[2]*o.Stride-o.Pad, p[3]*o.Stride-o.Pad
		bottom, l, right := min(w[2], x[2]-top), max(0, -left), min(w[3], x[3]-left)
		if l >= right {
			return
		}
		for c := range w[1] {
			for r := max(0, -top); r < bottom; r++ {
				ix := ((p[0]*x[1]+first+c)*x[2]+top+r)*x[3] + left + l
				f(ix, ((p[1]*w[1]+c)*w[2]+r)*w[3]+l, iy, right-l)
			}
		}
	})
}
