package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// updateOps are the rows of the op table that are in this file.
var updateOps = []graph.Op{SGD{}, Adam{}, Lion{}, ClipFactor{}, GradNorm{}, LearningRate{}, Increment{}, RingWrite{}}

// The ops of this file run once per step, after the backward passes of all
// microbatches. They have no gradient. A gradient g is the sum over the step's
// samples. An optimizer takes g*Scale*clip, where Scale is 1/(terms of the loss
// in the batch), and clip is an input f32[], absent without clipping.

// SGD is PyTorch's. With d = g*Scale*clip + WeightDecay*w and
// v' = Momentum*v + d, w' = w - lr v', or w - lr (d + Momentum v') with
// Nesterov, or w - lr d without momentum. From (w, g, lr f32[] [, v if
// Momentum > 0] [, clip if Clip]) to w' [, v'].
type SGD struct {
	Momentum           float64
	Nesterov           bool
	WeightDecay, Scale float64
	Clip               bool
}

// Kind is "sgd".
func (o SGD) Kind() string { return "sgd" }

// Infer checks that all tensors have the weight's metadata.
func (o SGD) Infer(in []shape.Meta) ([]shape.Meta, error) {
	n := 3
	tensors := []int{1}
	if o.Momentum < 0 || o.Nesterov && o.Momentum == 0 {
		return nil, fmt.Errorf("momentum %v: expected at least 0, more for nesterov", o.Momentum)
	}
	if o.Momentum > 0 {
		tensors = append(tensors, n)
		n++
	}
	scalars := []int{2}
	if o.Clip {
		scalars = append(scalars, n)
		n++
	}
	if err := floats(in, n); err != nil {
		return nil, err
	}
	if err := updated(in, tensors, scalars); err != nil {
		return nil, err
	}
	if o.Momentum > 0 {
		return []shape.Meta{in[0], in[0]}, nil
	}
	return one(in[0]), nil
}

// Grad is none: updates come after the backward pass.
func (o SGD) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a few operations per weight.
func (o SGD) Cost(in, out []shape.Meta) graph.Cost { return perElem(6, in[0].Elems(), in, out) }

// Alias updates weight and velocity in place.
func (o SGD) Alias() []int {
	if o.Momentum > 0 {
		return []int{0, 3}
	}
	return []int{0}
}

// Adam is PyTorch's Adam, or AdamW if Decoupled. With t = step+1 and
// d = g*Scale*clip (+ WeightDecay*w unless Decoupled, which scales w by
// 1 - lr*WeightDecay first instead): m' = Beta1 m + (1-Beta1) d,
// v' = Beta2 v + (1-Beta2) d², and
// w' = w - lr/(1-Beta1^t) m' / (sqrt(v')/sqrt(1-Beta2^t) + Eps).
// From (w, g, m, v, step i32[], lr f32[] [, clip if Clip]) to w', m', v'.
// (Kingma and Ba 2015; Loshchilov and Hutter 2019.)
type Adam struct {
	Beta1, Beta2, Eps, WeightDecay float64
	Decoupled                      bool
	Scale                          float64
	Clip                           bool
}

// Kind is "adam".
func (o Adam) Kind() string { return "adam" }

// Infer checks that all tensors have the weight's metadata.
func (o Adam) Infer(in []shape.Meta) ([]shape.Meta, error) {
	n, scalars := 6, []int{5}
	if o.Clip {
		n, scalars = 7, []int{5, 6}
	}
	if err := arity(in, n); err != nil {
		return nil, err
	}
	if err := betas(o.Beta1, o.Beta2); err != nil {
		return nil, err
	}
	if err := isFloat("weight", in[0], 0); err != nil {
		return nil, err
	}
	if err := expect("step", in[4], shape.I32()); err != nil {
		return nil, err
	}
	if err := updated(in, []int{1, 2, 3}, scalars); err != nil {
		return nil, err
	}
	return []shape.Meta{in[0], in[0], in[0]}, nil
}

// Grad is none: updates come after the backward pass.
func (o Adam) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a dozen operations per weight.
func (o Adam) Cost(in, out []shape.Meta) graph.Cost { return perElem(14, in[0].Elems(), in, out) }

// Alias updates weight and moments in place.
func (o Adam) Alias() []int { return []int{0, 2, 3} }

// Lion moves each weight by the learning rate, by a sign alone. With d = g*Scale*clip and
// c = Beta1 m + (1-Beta1) d: w' = w - lr (sign(c) + WeightDecay w), where sign(0) is 0 and
// sign(NaN) is NaN, and m' = Beta2 m + (1-Beta2) d. From (w, g, m, lr f32[] [, clip if
// Clip]) to w', m'. (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023,
// algorithm 2.)
type Lion struct {
	Beta1, Beta2, WeightDecay float64
	Scale                     float64
	Clip                      bool
}

// Kind is "lion".
func (o Lion) Kind() string { return "lion" }

// Infer checks that all tensors have the weight's metadata.
func (o Lion) Infer(in []shape.Meta) ([]shape.Meta, error) {
	n, scalars := 4, []int{3}
	if o.Clip {
		n, scalars = 5, []int{3, 4}
	}
	if err := floats(in, n); err != nil {
		return nil, err
	}
	if err := betas(o.Beta1, o.Beta2); err != nil {
		return nil, err
	}
	if err := updated(in, []int{1, 2}, scalars); err != nil {
		return nil, err
	}
	return []shape.Meta{in[0], in[0]}, nil
}

// Grad is none: updates come after the backward pass.
func (o Lion) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is several operations per weight.
func (o Lion) Cost(in, out []shape.Meta) graph.Cost { return perElem(10, in[0].Elems(), in, out) }

// Alias updates weight and moment in place.
func (o Lion) Alias() []int { return []int{0, 2} }

// betas refuses decays of running averages outside [0,1).
func betas(beta1, beta2 float64) error {
	if beta1 < 0 || beta1 >= 1 || beta2 < 0 || beta2 >= 1 {
		return fmt.Errorf("betas %v and %v are outside [0,1)", beta1, beta2)
	}
	return nil
}

// ClipFactor is min(1, MaxNorm/(norm+1e-6)), f32[], norm = Scale*sqrt(sum)
// over any number (at least one) of sums of squares f32[] of unscaled
// gradients, added in the order given.
type ClipFactor struct{ MaxNorm, Scale float64 }

// Kind is "clip_factor".
func (o ClipFactor) Kind() string { return "clip_factor" }

// Infer wants scalars.
func (o ClipFactor) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := sumsOfSquares(in); err != nil {
		return nil, err
	}
	if o.MaxNorm <= 0 {
		return nil, fmt.Errorf("largest norm %v is not positive", o.MaxNorm)
	}
	return one(shape.F32()), nil
}

// sumsOfSquares wants at least one scalar.
func sumsOfSquares(in []shape.Meta) error {
	if len(in) == 0 {
		return fmt.Errorf("takes at least 1 sum of squares, got none")
	}
	for i, m := range in {
		if err := expect(fmt.Sprintf("input %d", i), m, shape.F32()); err != nil {
			return err
		}
	}
	return nil
}

// Grad is none: updates come after the backward pass.
func (o ClipFactor) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is an addition per input.
func (o ClipFactor) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, len(in)+4, in, out) }

// GradNorm is Scale*sqrt(sum), f32[], over the inputs of a ClipFactor.
type GradNorm struct{ Scale float64 }

// Kind is "grad_norm".
func (o GradNorm) Kind() string { return "grad_norm" }

// Infer wants scalars.
func (o GradNorm) Infer(in []shape.Meta) ([]shape.Meta, error) {
	return one(shape.F32()), sumsOfSquares(in)
}

// Grad is none: updates come after the backward pass.
func (o GradNorm) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is an addition per input.
func (o GradNorm) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, len(in)+2, in, out) }

// Increment adds one to a counter i32[], in place.
type Increment struct{}

// Kind is "increment".
func (o Increment) Kind() string { return "increment" }

// Infer wants a counter.
func (o Increment) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return one(in[0]), expect("counter", in[0], shape.I32())
}

// Grad is none: a counter is no function of the weights.
func (o Increment) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is one addition.
func (o Increment) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, 1, in, out) }

// Alias updates the counter in place.
func (o Increment) Alias() []int { return []int{0} }

// RingWrite is (ring f32[L, …], step i32[], x f32[…]) to ring with
// ring[step mod L] = x*Scale, in place. Losses of steps wait in it until they are
// read.
type RingWrite struct{ Scale float64 }

// Kind is "ring_write".
func (o RingWrite) Kind() string { return "ring_write" }

// Infer wants a ring of at least one x.
func (o RingWrite) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if in[0].DType != shape.Float32 || in[0].Shape.Rank() == 0 || in[0].Elems() == 0 {
		return nil, fmt.Errorf("ring is %v, expected f32 [length, …] of at least 1", in[0])
	}
	if err := expect("step", in[1], shape.I32()); err != nil {
		return nil, err
	}
	return one(in[0]), expect("x", in[2], shape.F32(in[0].Shape[1:]...))
}

// Grad is none: it records.
func (o RingWrite) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is the elements written.
func (o RingWrite) Cost(in, _ []shape.Meta) graph.Cost {
	n := int64(in[2].Elems())
	return graph.Cost{Flops: n, Bytes: 8*n + 4}
}

// Alias updates the ring in place.
func (o RingWrite) Alias() []int { return []int{0} }

// updated checks the inputs of an optimizer: those listed in tensors have the
// weight's metadata, those in scalars are f32[].
func updated(in []shape.Meta, tensors, scalars []int) error {
	for _, i := range tensors {
		if err := expect(fmt.Sprintf("input %d", i), in[i], in[0]); err != nil {
			return err
		}
	}
	for _, i := range scalars {
		if err := expect(fmt.Sprintf("input %d", i), in[i], shape.F32()); err != nil {
			return err
		}
	}
	return nil
}
