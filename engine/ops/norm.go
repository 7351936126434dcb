package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// normOps are the rows of the op table that are in this file.
var normOps = []graph.Op{LayerNorm{}, LayerNormGrad{}, RMSNorm{}, RMSNormGrad{}, BatchNorm{}, BatchNormGrad{}, BatchNormEval{}}

// LayerNorm is y = (x - mean) rstd gamma + beta with mean and variance over
// the last axis, rstd = 1/sqrt(var + Eps): (x [...,D], gamma [D], beta [D]) to
// y, mean [...] and rstd [...].
type LayerNorm struct{ Eps float64 }

// Kind is "layer_norm".
func (o LayerNorm) Kind() string { return "layer_norm" }

// Infer checks gamma and beta against the last dimension.
func (o LayerNorm) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 3); err != nil {
		return nil, err
	}
	if err := features(in[0], -1, in[1:]); err != nil {
		return nil, err
	}
	rows := lead(in[0].Shape)
	return []shape.Meta{in[0], f32(rows), f32(rows)}, nil
}

// Grad is [LayerNormGrad].
func (o LayerNorm) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if !onlyFirst(b, n, dy) {
		return noGrad(n)
	}
	return b.Apply(LayerNormGrad{}, n.In[0], n.In[1], n.Out[1], n.Out[2], dy[0])[:3]
}

// Alias lets y take the place of x.
func (o LayerNorm) Alias() []int { return []int{0, -1, -1} }

// Cost is about eight operations per element.
func (o LayerNorm) Cost(in, out []shape.Meta) graph.Cost { return perElem(8, in[0].Elems(), in, out) }

// LayerNormGrad is (dx, dgamma, dbeta) from (x, gamma, mean, rstd, dy).
type LayerNormGrad struct{}

// Kind is "layer_norm_grad".
func (o LayerNormGrad) Kind() string { return "layer_norm_grad" }

// Infer has the metadata of x and gamma.
func (o LayerNormGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 5); err != nil {
		return nil, err
	}
	if err := features(in[0], -1, in[1:2]); err != nil {
		return nil, err
	}
	return normGrad(in, f32(lead(in[0].Shape)))
}

// Grad fails: see noSecond.
func (o LayerNormGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Alias lets dx take the place of dy.
func (o LayerNormGrad) Alias() []int { return []int{4, -1, -1} }

// Cost is about fourteen operations per element.
func (o LayerNormGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(14, in[0].Elems(), in, out)
}

// RMSNorm is y = x rstd gamma over the last axis, rstd = 1/sqrt(mean(x^2) + Eps): (x
// [...,D], gamma [D]) to y and rstd [...] (Zhang and Sennrich, "Root Mean Square Layer
// Normalization", 2019).
type RMSNorm struct{ Eps float64 }

// Kind is "rms_norm".
func (o RMSNorm) Kind() string { return "rms_norm" }

// Infer checks gamma against the last dimension.
func (o RMSNorm) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 2); err != nil {
		return nil, err
	}
	if err := features(in[0], -1, in[1:]); err != nil {
		return nil, err
	}
	return []shape.Meta{in[0], f32(lead(in[0].Shape))}, nil
}

// Grad is [RMSNormGrad].
func (o RMSNorm) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if !onlyFirst(b, n, dy) {
		return noGrad(n)
	}
	return b.Apply(RMSNormGrad{}, n.In[0], n.In[1], n.Out[1], dy[0])[:2]
}

// Alias lets y take the place of x.
func (o RMSNorm) Alias() []int { return []int{0, -1} }

// Cost is about four operations per element.
func (o RMSNorm) Cost(in, out []shape.Meta) graph.Cost { return perElem(4, in[0].Elems(), in, out) }

// RMSNormGrad is (dx, dgamma) from (x, gamma, rstd, dy).
type RMSNormGrad struct{}

// Kind is "rms_norm_grad".
func (o RMSNormGrad) Kind() string { return "rms_norm_grad" }

// Infer has the metadata of x and gamma.
func (o RMSNormGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 4); err != nil {
		return nil, err
	}
	if err := features(in[0], -1, in[1:2]); err != nil {
		return nil, err
	}
	if err := expect("rstd", in[2], f32(lead(in[0].Shape))); err != nil {
		return nil, err
	}
	return []shape.Meta{in[0], in[1]}, expect("dy", in[3], in[0])
}

// Grad fails: see noSecond.
func (o RMSNormGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Alias lets dx take the place of dy.
func (o RMSNormGrad) Alias() []int { return []int{3, -1} }

// Cost is about ten operations per element.
func (o RMSNormGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(10, in[0].Elems(), in, out)
}

// BatchNorm normalises each channel by the microbatch's own mean and variance:
// (x [N,C,...], gamma [C], beta [C]) to y, mean [C], var [C] (biased) and
// rstd [C] = 1/sqrt(var + Eps).
type BatchNorm struct{ Eps float64 }

// Kind is "batch_norm".
func (o BatchNorm) Kind() string { return "batch_norm" }

// Infer checks gamma and beta against the channels.
func (o BatchNorm) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 3); err != nil {
		return nil, err
	}
	if err := features(in[0], 1, in[1:]); err != nil {
		return nil, err
	}
	c := in[1]
	return []shape.Meta{in[0], c, c, c}, nil
}

// Grad is [BatchNormGrad]; mean and variance are statistics, through which
// nothing flows.
func (o BatchNorm) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if !onlyFirst(b, n, dy) {
		return noGrad(n)
	}
	return b.Apply(BatchNormGrad{}, n.In[0], n.In[1], n.Out[1], n.Out[3], dy[0])[:3]
}

// Alias lets y take the place of x.
func (o BatchNorm) Alias() []int { return []int{0, -1, -1, -1} }

// Cost is about eight operations per element.
func (o BatchNorm) Cost(in, out []shape.Meta) graph.Cost { return perElem(8, in[0].Elems(), in, out) }

// BatchNormGrad is (dx, dgamma, dbeta) from (x, gamma, mean, rstd, dy).
type BatchNormGrad struct{}

// Kind is "batch_norm_grad".
func (o BatchNormGrad) Kind() string { return "batch_norm_grad" }

// Infer has the metadata of x and gamma.
func (o BatchNormGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 5); err != nil {
		return nil, err
	}
	if err := features(in[0], 1, in[1:2]); err != nil {
		return nil, err
	}
	return normGrad(in, in[1])
}

// Grad fails: see noSecond.
func (o BatchNormGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Alias lets dx take the place of dy.
func (o BatchNormGrad) Alias() []int { return []int{4, -1, -1} }

// Cost is about fourteen operations per element.
func (o BatchNormGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(14, in[0].Elems(), in, out)
}

// BatchNormEval normalises by given statistics:
// (x [N,C,...], gamma, beta, mean, var, each [C]) to y.
type BatchNormEval struct{ Eps float64 }

// Kind is "batch_norm_eval".
func (o BatchNormEval) Kind() string { return "batch_norm_eval" }

// Infer checks the vectors against the channels.
func (o BatchNormEval) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 5); err != nil {
		return nil, err
	}
	return one(in[0]), features(in[0], 1, in[1:])
}

// Grad is composed of other ops: y is affine in x, gamma and beta. Statistics
// are not trained, so nothing flows to mean and var.
func (o BatchNormEval) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x, d := n.In[0].Meta.Shape, dy[0]
	channel := func(v *graph.Value) *graph.Value { // [C] as [C,1,...], to broadcast over x
		s := make([]int, x.Rank()-1)
		for i := range s {
			s[i] = 1
		}
		s[0] = x[1]
		return ReshapeTo(b, v, s...)
	}
	axes := []int{0}
	for i := 2; i < x.Rank(); i++ {
		axes = append(axes, i)
	}
	rstd := Rsqrt(b, AddConst(b, n.In[4], o.Eps))
	centred := Sub(b, n.In[0], channel(n.In[3]))
	return []*graph.Value{
		Mul(b, d, channel(Mul(b, n.In[1], rstd))),
		Mul(b, Sum(b, Mul(b, d, centred), false, axes...), rstd),
		Sum(b, d, false, axes...),
		nil, nil,
	}
}

// Alias lets y take the place of x.
func (o BatchNormEval) Alias() []int { return []int{0} }

// Cost is a multiply-add per element once scale and shift are known.
func (o BatchNormEval) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(2, in[0].Elems(), in, out)
}

// features checks vectors against dimension axis of x.
func features(x shape.Meta, axis int, vectors []shape.Meta) error {
	s := x.Shape
	if s.Rank() == 0 || axis >= s.Rank() || s.Dim(axis) == 0 {
		return fmt.Errorf("input is %v, which has no dimension %d for the features", x, axis)
	}
	for _, v := range vectors {
		if !v.Shape.Equal(shape.Of(s.Dim(axis))) {
			return fmt.Errorf("input has %d features, weight expects %v", s.Dim(axis), v.Shape)
		}
	}
	return nil
}

// normGrad checks mean, rstd and dy, and returns the metadata of
// dx, dgamma and dbeta.
func normGrad(in []shape.Meta, stat shape.Meta) ([]shape.Meta, error) {
	if err := expect("mean", in[2], stat); err != nil {
		return nil, err
	}
	if err := expect("rstd", in[3], stat); err != nil {
		return nil, err
	}
	return []shape.Meta{in[0], in[1], in[1]}, expect("dy", in[4], in[0])
}
