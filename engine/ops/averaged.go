package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Averaged is the update Op, and a moving average of the weights that it makes:
// a' = a + (1 - Decay)*(w' - a) (Polyak and Juditsky 1992). From the inputs of Op, with a
// after the weight w, to the outputs of Op, with a' after w'.
type Averaged struct {
	Op    graph.Op // [SGD], [Adam] or [Lion]
	Decay float64
}

// averagePlace is the place of the average among inputs and outputs.
const averagePlace = 1

// Kind is "averaged".
func (o Averaged) Kind() string { return "averaged" }

// String has the kind and the attributes of Op.
func (o Averaged) String() string {
	return fmt.Sprintf("{%s Decay:%v}", graph.OpString(o.Op), o.Decay)
}

// WithoutAverage copies a list of something of the inputs or outputs of an [Averaged], of
// which there are at least two, and leaves that of the average out.
func WithoutAverage[T any](of []T) []T {
	return append(append(make([]T, 0, len(of)-1), of[:averagePlace]...), of[averagePlace+1:]...)
}

// Infer checks the inputs of Op, and that the average has the weight's metadata.
func (o Averaged) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if inPlace(o.Op) == nil {
		return nil, fmt.Errorf("%T makes no weight that could be averaged: use SGD, Adam or Lion", o.Op)
	}
	if o.Decay < 0 || o.Decay >= 1 {
		return nil, fmt.Errorf("decay %v is outside [0,1)", o.Decay)
	}
	if len(in) <= averagePlace {
		return nil, fmt.Errorf("takes the weight, its average and more, got %d inputs", len(in))
	}
	if err := expect("average", in[averagePlace], in[0]); err != nil {
		return nil, err
	}
	out, err := o.Op.Infer(WithoutAverage(in))
	if err != nil {
		return nil, err
	}
	return append([]shape.Meta{out[0], in[0]}, out[1:]...), nil
}

// Grad is none: updates come after the backward pass.
func (o Averaged) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost adds three operations per weight to those of Op.
func (o Averaged) Cost(in, out []shape.Meta) graph.Cost {
	of, more := o.Op.Cost(WithoutAverage(in), WithoutAverage(out)), perElem(3, in[0].Elems(), in[1:2], out[1:2])
	return graph.Cost{Flops: of.Flops + more.Flops, Bytes: of.Bytes + more.Bytes}
}

// Alias updates all that Op does and the average in place.
func (o Averaged) Alias() []int {
	at := inPlace(o.Op)
	if at == nil {
		return nil
	}
	list := []int{0, averagePlace}
	for _, i := range at[1:] {
		list = append(list, i+1)
	}
	return list
}
