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
	eachTap(o, x.Meta.Shape, w.Meta.Shape, y.Meta.Shape, func(ix, iw, iy int) {
		y.F[iy] += x.F[ix] * w.F[iw]
	})
}

func convGradX(o ops.Conv2DGradX, in, out []Array) {
	w, dy, dx := in[0], in[1], out[0]
	c := ops.Conv2D{Stride: o.Stride, Pad: o.Pad, Groups: o.Groups}
	eachTap(c, dx.Meta.Shape, w.Meta.Shape, dy.Meta.Shape, func(ix, iw, iy int) {
		dx.F[ix] += dy.F[iy] * w.F[iw]
	})
}

func convGradW(o ops.Conv2DGradW, in, out []Array) {
	x, dy, dw := in[0], in[1], out[0]
	c := ops.Conv2D{Stride: o.Stride, Pad: o.Pad, Groups: o.Groups}
	eachTap(c, x.Meta.Shape, dw.Meta.Shape, dy.Meta.Shape, func(ix, iw, iy int) {
		dw.F[iw] += dy.F[iy] * x.F[ix]
	})
}

// eachTap calls f with the positions of every input element, weight and output
// element that a convolution multiplies and adds: y[iy] += x[ix] * w[iw].
func eachTap(o ops.Conv2D, x, w, y shape.Shape, f func(ix, iw, iy int)) {
	perGroup := y[1] / o.Groups
	each(y, func(iy int, p []int) {
		first := p[1] / perGroup * w[1] // the first input channel of the group
		each(shape.Of(w[1:]...), func(k int, q []int) {
			h, v := p[2]*o.Stride-o.Pad+q[1], p[3]*o.Stride-o.Pad+q[2]
			if h < 0 || h >= x[2] || v < 0 || v >= x[3] {
				return
			}
			f(((p[0]*x[1]+first+q[0])*x[2]+h)*x[3]+v, p[1]*w[1]*w[2]*w[3]+k, iy)
		})
	})
}
