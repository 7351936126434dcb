package ops

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// BySamples reports whether some samples of a node's results, along dimension 0, are
// computed from the same samples of some inputs and from the others as they are, with the
// same bits; and which inputs these are. All results have the samples then, or the same number of
// indices for each, as rows of a matrix that are positions of samples. What sums over
// samples is none of these, nor what draws random numbers by a sample's place.
func BySamples(n *graph.Node) (cut []bool, ok bool) {
	samples, ok := samplesOf(n)
	if !ok {
		return nil, false
	}
	first := func(count int) []bool {
		cut := make([]bool, len(n.In))
		for i := range count {
			cut[i] = true
		}
		return cut
	}
	switch op := n.Op.(type) {
	case Unary, UnaryGrad, Affine, Lerp, MaxPool2D, MaxPool2DGrad, AvgPool2D, AvgPool2DGrad, Compare, Select, Gated:
		cut = first(len(n.In))
	case Binary:
		cut = make([]bool, len(n.In))
		for i, v := range n.In {
			cut[i] = v.Meta.Shape.Rank() == n.Out[0].Meta.Shape.Rank() && v.Meta.Shape[0] == samples
		}
	case Conv2D, LayerNorm, RMSNorm, BatchNormEval:
		cut = first(1)
	case Conv2DGradX:
		cut = []bool{false, true}
	case Reshape:
		cut = first(1)
	case MatMul:
		if a := n.In[0].Meta.Shape; op.TransA || n.In[1].Meta.Shape.Rank() != 2 || a.Rank() < 2 {
			return nil, false
		}
		cut = first(1)
	case Attention, AttentionGrad:
		cut = first(len(n.In)) // two are scalars where there is dropout, which is refused below
	default:
		return nil, false
	}
	for i, v := range n.In {
		if cut[i] && !HasSamples(v, n) {
			return nil, false
		}
	}
	return cut, true
}

// HasSamples reports whether dimension 0 of an input of n is that of its result: of a [Reshape], perhaps only a divisor.
func HasSamples(v *graph.Value, n *graph.Node) bool {
	in, out := v.Meta.Shape, n.Out[0].Meta.Shape
	if in.Rank() == 0 || out.Rank() == 0 {
		return false
	}
	_, merges := n.Op.(Reshape)
	return in[0] == out[0] || merges && in[0] > 0 && out[0]%in[0] == 0
}

// samplesOf is dimension 0 of all results, if that is one number.
func samplesOf(n *graph.Node) (samples int, ok bool) {
	if len(n.Out) == 0 || len(n.In) == 0 {
		return 0, false
	}
	for i, v := range n.Out {
		s := v.Meta.Shape
		if s.Rank() == 0 || i > 0 && s[0] != samples {
			return 0, false
		}
		samples = s[0]
	}
	return samples, true
}

// OfSamples is the op that computes so many indices of dimension 0 of what op computes: see [BySamples].
func OfSamples(op graph.Op, samples int) graph.Op {
	if o, ok := op.(Reshape); ok {
		o.Shape = o.Shape.Clone()
		o.Shape[0] = samples
		return o
	}
	return op
}

// Channels says how a node can be cut over its channels: the axis of each input and of each result
// that the parts are ranges of, or -1 for what each part reads whole.
type Channels struct{ In, Out []int }

// Of is how many channels n has.
func (c Channels) Of(n *graph.Node) int { return n.Out[0].Meta.Shape[c.Out[0]] }

// Equal reports whether two nodes are cut alike.
func (c Channels) Equal(d Channels) bool {
	return slices.Equal(c.In, d.In) && slices.Equal(c.Out, d.Out)
}

// ByChannels reports whether some channels of a node's results are computed from the same
// channels of some inputs and from the others as they are, with the same bits; and how. These are
// sums over samples: the gradients of weights and biases, and batch norm with its statistics. Where there are two ways, each part of the
// first can be cut by the second, too.
func ByChannels(n *graph.Node) (ways []Channels) {
	switch op := n.Op.(type) {
	case Conv2DGradW:
		if op.Of.Groups == 1 {
			return []Channels{{In: []int{-1, 1}, Out: []int{0}}}
		}
	case BatchNorm:
		return []Channels{{In: []int{1, 0, 0}, Out: []int{1, 0, 0, 0}}}
	case BatchNormGrad:
		return []Channels{{In: []int{1, 0, 0, 0, 1}, Out: []int{1, 0, 0}}}
	case MatMul:
		if op.TransA && !op.TransB && n.In[0].Meta.Shape.Rank() == 2 && n.In[1].Meta.Shape.Rank() == 2 {
			return []Channels{{In: []int{1, -1}, Out: []int{0}}, {In: []int{-1, 1}, Out: []int{1}}}
		}
	case SumTo:
		x, to := n.In[0].Meta.Shape, n.Out[0].Meta.Shape
		if x.Rank() == 4 && x[2]*x[3] > 1 && to.Equal(shape.Of(x[1], 1, 1)) {
			return []Channels{{In: []int{1}, Out: []int{0}}}
		}
		if last := x.Rank() - 1; (last == 1 || last == 2) && to.Rank() == 1 && to[0] == x[last] && to[0] >= leastColumns {
			return []Channels{{In: []int{last}, Out: []int{0}}}
		}
	}
	return nil
}

// leastColumns is the fewest columns of a sum over rows that is cut: of fewer, kernels sum several rows as one.
const leastColumns = 16

// OfChannels is the op that computes so many channels of what op computes: see [ByChannels].
func OfChannels(op graph.Op, channels int) graph.Op {
	if o, ok := op.(SumTo); ok {
		o.Shape = slices.Clone(o.Shape)
		o.Shape[0] = channels
		return o
	}
	return op
}
