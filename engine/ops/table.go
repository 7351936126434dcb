package ops

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// table has every op that needs a kernel, with no attributes but those that
// name it.
var table = slices.Concat(elementwise(), []graph.Op{
	Affine{}, Lerp{}, Fill{},
	MatMul{},
	Conv2D{}, Conv2DGradX{}, Conv2DGradW{},
	MaxPool2D{}, MaxPool2DGrad{}, AvgPool2D{}, AvgPool2DGrad{},
	Reduce{Fn: "sum"}, Reduce{Fn: "mean"}, Reduce{Fn: "max"}, ReduceMaxGrad{},
	SumTo{}, BroadcastTo{}, SumSquares{},
	Reshape{}, Transpose{}, Slice{}, SliceGrad{}, Concat{},
	Softmax{}, SoftmaxGrad{}, LogSoftmax{}, LogSoftmaxGrad{},
	CrossEntropy{}, CrossEntropyGrad{}, MSE{}, MSEGrad{}, BCE{}, BCEGrad{},
	Correct{}, BinaryCorrect{}, CheckFinite{},
	LayerNorm{}, LayerNormGrad{}, BatchNorm{}, BatchNormGrad{}, BatchNormEval{},
	Dropout{}, Gather{}, ScatterAdd{},
	CausalSelfAttention{}, CausalSelfAttentionGrad{},
	SGD{}, Adam{}, ClipFactor{}, LearningRate{}, Increment{}, RingWrite{},
})

// elementwise lists the binary and unary functions, and the gradients of those
// that have one of their own.
func elementwise() []graph.Op {
	all := []graph.Op{AddOp, Binary{"sub"}, Binary{"mul"}, Binary{"div"}}
	for fn := range unaries {
		all = append(all, Unary{fn})
		if fn != "neg" {
			all = append(all, UnaryGrad{fn})
		}
	}
	return all
}

// Kinds lists the kinds of all ops in alphabetical order: what a device that
// runs everything has kernels for.
func Kinds() []string {
	kinds := make([]string, len(table))
	for i, op := range table {
		kinds[i] = op.Kind()
	}
	slices.Sort(kinds)
	return kinds
}
