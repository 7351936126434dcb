package models_test

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// scaled is a layer with a key.
type scaled struct {
	By float64 `yaml:"by" min:"0" doc:"first value of the factor"`
}

// Build multiplies x by a learned factor for each feature.
func (l scaled) Build(b *models.Builder, x *graph.Value) *graph.Value {
	factor := b.Param("factor", x.Meta.Shape[1:], graph.Init{Kind: graph.Constant, A: l.By})
	return ops.Mul(b.Builder, x, factor)
}

// A layer with a key, in an init function: `- scaled: {by: 0.5}` in a config.
func ExampleRegisterLayer() {
	models.RegisterLayer(models.LayerType[scaled]{
		Name: "scaled", Version: 1, Doc: "A learned factor for each feature.", Defaults: scaled{By: 1},
	})
}

// The absolute error, in an init function: `loss: mae` in a config.
func ExampleRegisterLoss() {
	models.RegisterLoss(models.LossType[struct{}]{
		Name: "mae", Version: 1, Doc: "The absolute error.",
		Loss: func(b *models.Builder, _ struct{}, output, target *graph.Value) *graph.Value {
			return ops.SumToShape(b.Builder, ops.Abs(b.Builder, ops.Sub(b.Builder, output, target)), shape.Of())
		},
	})
}
