package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// HuberKeys are the keys of the loss huber.
type HuberKeys struct {
	Delta float64 `yaml:"delta" above:"0" doc:"error from which on the loss grows in proportion"`
}

func init() {
	builtInLoss(LossType[struct{}]{Name: "l1", Doc: "For numbers: the errors themselves, of which few large ones count less than with `mse`.", Pads: true,
		Loss: func(b *Builder, _ struct{}, output, target *graph.Value) *graph.Value {
			return ops.SumToShape(b.Builder, ops.Abs(b.Builder, ops.Sub(b.Builder, output, target)), shape.Of())
		}})
	builtInLoss(LossType[HuberKeys]{Name: "huber", Doc: "For numbers: half the square of errors below delta, and in proportion to larger ones.", Pads: true,
		Defaults: HuberKeys{Delta: 1}, Loss: huber})
}

// huber sums e²/2 where |e| < delta, and delta·(|e| - delta/2) elsewhere.
func huber(b *Builder, k HuberKeys, output, target *graph.Value) *graph.Value {
	e := ops.Abs(b.Builder, ops.Sub(b.Builder, output, target))
	delta := ops.Const(b.Builder, e.Meta, k.Delta)
	each := ops.SelectOf(b.Builder, ops.Less(b.Builder, e, delta),
		ops.ScaleBy(b.Builder, ops.Square(b.Builder, e), 0.5),
		b.One(ops.Affine{Scale: k.Delta, Shift: -k.Delta * k.Delta / 2}, e))
	return ops.SumToShape(b.Builder, each, shape.Of())
}
