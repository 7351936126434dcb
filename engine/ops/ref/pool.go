package ref

import (
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var pools = map[string]kernel{
	"max_pool2d":      of(maxPool),
	"max_pool2d_grad": of(maxPoolGrad),
	"avg_pool2d":      of(avgPool),
	"avg_pool2d_grad": of(avgPoolGrad),
}

func maxPool(o ops.MaxPool2D, in, out []Array) {
	x, y, idx := in[0], out[0], out[1]
	s := x.Meta.Shape
	plane := s[2] * s[3]
	each(y.Meta.Shape, func(i int, p []int) {
		base, found := (p[0]*s[1]+p[1])*plane, false
		eachInWindow(s, p, o.Kernel, o.Stride, o.Pad, func(at int) {
			if v := x.F[base+at]; !found || v > y.F[i] {
				y.F[i], idx.I[i], found = v, int32(at), true
			}
		})
	})
}

func maxPoolGrad(_ ops.MaxPool2DGrad, in, out []Array) {
	idx, dy, dx := in[0], in[1], out[0]
	s, d := dx.Meta.Shape, dy.Meta.Shape
	for i, v := range dy.F {
		plane := i / (d[2] * d[3])
		dx.F[plane*s[2]*s[3]+int(idx.I[i])] += v
	}
}

func avgPool(o ops.AvgPool2D, in, out []Array) {
	x, y := in[0], out[0]
	s := x.Meta.Shape
	each(y.Meta.Shape, func(i int, p []int) {
		base := (p[0]*s[1] + p[1]) * s[2] * s[3]
		eachInWindow(s, p, o.Kernel, o.Stride, o.Pad, func(at int) { y.F[i] += x.F[base+at] })
		y.F[i] /= float64(o.Kernel * o.Kernel)
	})
}

func avgPoolGrad(o ops.AvgPool2DGrad, in, out []Array) {
	dy, dx := in[0], out[0]
	s := dx.Meta.Shape
	each(dy.Meta.Shape, func(i int, p []int) {
		base := (p[0]*s[1] + p[1]) * s[2] * s[3]
		share := dy.F[i] / float64(o.Kernel*o.Kernel)
		eachInWindow(s, p, o.Kernel, o.Stride, o.Pad, func(at int) { dx.F[base+at] += share })
	})
}

// eachInWindow calls f for each element of the window of output p, padding left
// out, with its position in the plane [H,W] of x.
func eachInWindow(x shape.Shape, p []int, kernel, stride, pad int, f func(at int)) {
	for i := range kernel {
		for j := range kernel {
			h, w := p[2]*stride-pad+i, p[3]*stride-pad+j
			if h >= 0 && h < x[2] && w >= 0 && w < x[3] {
				f(h*x[3] + w)
			}
		}
	}
}
