// Package op adds an op to a trainer, and a layer that uses it: a wave, sin(f·x), as an
// activation. The op has a rule for shapes, a gradient, a cost for the planner, and a
// plain kernel, which every device on the host runs and fuses with its neighbours.
// `{type: wave, frequency: 3}` is then a layer in YAML:
//
//	go run ./examples/trainer train examples/op/ripples.yaml
package op

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// wave is the op y = sin(F·x + Shift). Two ops are one to the planner if their fields
// are alike.
type wave struct{ F, Shift float64 }

// Kind names the op in plans and traces.
func (w wave) Kind() string { return "wave" }

// Infer says which outputs there are for some inputs, or what is wrong with these.
func (w wave) Infer(in []shape.Meta) ([]shape.Meta, error) { return ops.SameMeta(in, 1) }

// Grad appends the gradient of the input: dy·F·cos(F·x + Shift), a wave again.
func (w wave) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	slope := b.One(wave{w.F, w.Shift + math.Pi/2}, n.In[0])
	return []*graph.Value{ops.Mul(b, dy[0], ops.ScaleBy(b, slope, w.F))}
}

// Cost tells the planner how long the op takes: here some 20 operations an element.
func (w wave) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(20, in, out) }

// Map is the kernel of an elementwise op. Others have a method Compute.
func (w wave) Map(y, x, _ []float32) {
	for i := range y {
		y[i] = float32(math.Sin(w.F*float64(x[i]) + w.Shift))
	}
}

// waveLayer is the layer, with its keys in YAML.
type waveLayer struct {
	Frequency float64 `yaml:"frequency" min:"0.1" max:"100" doc:"of the wave"`
}

func init() {
	ops.Register(1, wave{}) // raise a version whenever the numbers change
	models.RegisterLayer(models.LayerType[waveLayer]{Name: "wave", Version: 1, Doc: "sin(frequency·x).", Defaults: waveLayer{Frequency: 1}})
}

// Build appends the op.
func (l waveLayer) Build(b *models.Builder, x *graph.Value) *graph.Value {
	return b.One(wave{F: l.Frequency}, x)
}
