// Package loss adds a loss to a trainer: the pseudo-Huber loss, which grows with the square
// of small errors and in proportion to large ones, so that a few wrong targets do not spoil a
// regression. It is a smooth kind of the built-in `huber`. `loss: pseudo_huber` and
// `loss: {name: pseudo_huber, delta: 2}` then work in YAML:
//
//	go run ./examples/trainer train examples/loss/line.yaml
package loss

import (
	"context"
	"math/rand/v2"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// pseudoHuberKeys are the keys of the loss in YAML.
type pseudoHuberKeys struct {
	Delta float64 `yaml:"delta" min:"0.001" doc:"error at which the loss begins to grow in proportion"`
}

func init() {
	models.RegisterLoss(models.LossType[pseudoHuberKeys]{
		Name: "pseudo_huber", Version: 1, Doc: "Squares of small errors, and large ones themselves.",
		Defaults: pseudoHuberKeys{Delta: 1}, Loss: pseudoHuber,
	})
	custom.Register(custom.SourceType[struct{}]{Name: "noisy_line", Version: 1, Doc: "2x + 1, and one wrong target in ten.", Regression: true, Open: line})
}

// pseudoHuber appends the loss to the graph: delta²·(√(1+(e/delta)²) − 1), summed over all
// errors e. Its gradient follows from those of the ops.
func pseudoHuber(b *models.Builder, k pseudoHuberKeys, output, target *graph.Value) *graph.Value {
	e := ops.ScaleBy(b.Builder, ops.Sub(b.Builder, output, target), 1/k.Delta)
	root := ops.Sqrt(b.Builder, b.One(ops.Affine{Scale: 1, Shift: 1}, ops.Square(b.Builder, e)))
	each := b.One(ops.Affine{Scale: k.Delta * k.Delta, Shift: -k.Delta * k.Delta}, root)
	return ops.SumToShape(b.Builder, each, shape.Of())
}

// line is a line with some targets far off it.
func line(context.Context, struct{}) (*custom.Set, error) {
	fill := func(s custom.Sample, input, target *tensor.Dense) error {
		r := rand.New(rand.NewPCG(uint64(s.Index), 0))
		x := 2*r.Float32() - 1
		input.Float32s()[0], target.Float32s()[0] = x, 2*x+1
		if s.Index%10 == 0 {
			target.Float32s()[0] = 100
		}
		return nil
	}
	return &custom.Set{Len: 1000, Input: shape.F32(1), Target: shape.F32(1), Fill: fill}, nil
}
