package berth_test

import (
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/runtest"
)

// gated is x * sigmoid(Beta x), of parts.
type gated struct{ Beta float64 }

func (gated) Kind() string { return "gated" }

func (o gated) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	return []*graph.Value{ops.Mul(b, in[0], ops.Sigmoid(b, ops.ScaleBy(b, in[0], o.Beta)))}
}

// formula is gated with the gradient of its formula, which computes the sigmoid again.
type formula struct{ gated }

func (o formula) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x := n.In[0]
	s := ops.Sigmoid(b, ops.ScaleBy(b, x, o.Beta))
	slope := b.One(ops.UnaryGrad{Fn: "sigmoid"}, s, ops.ScaleBy(b, ops.Mul(b, dy[0], x), o.Beta))
	return []*graph.Value{ops.Add(b, ops.Mul(b, dy[0], s), slope)}
}

// gateOfParts is the layer whose gradient follows from the parts.
type gateOfParts struct {
	Beta float64 `yaml:"beta" min:"0" doc:"steepness"`
}

func (l gateOfParts) Build(b *models.Builder, x *graph.Value) *graph.Value {
	return b.One(graph.Compose(gated(l)), x)
}

// gateOfFormula is the layer with a gradient of its own.
type gateOfFormula struct {
	Beta float64 `yaml:"beta" min:"0" doc:"steepness"`
}

func (l gateOfFormula) Build(b *models.Builder, x *graph.Value) *graph.Value {
	return b.One(graph.Compose(formula{gated(l)}), x)
}

func init() {
	models.RegisterLayer(models.LayerType[gateOfParts]{Name: "gate_of_parts", Version: 1, Doc: "A gate, for tests.", Defaults: gateOfParts{Beta: 1}})
	models.RegisterLayer(models.LayerType[gateOfFormula]{Name: "gate_of_formula", Version: 1, Doc: "A gate, for tests.", Defaults: gateOfFormula{Beta: 1}})
}

// A layer made of a composite op trains in every way with the same weights, and learns the
// same by either gradient.
func TestCompositeInALayer(t *testing.T) {
	for _, layer := range []string{"gate_of_parts", "gate_of_formula"} {
		text := "data: digits\nmodel:\n  layers:\n    - flatten\n    - dense: {units: 32}\n    - " + layer + ": {beta: 1.5}\n    - dense: {units: 10}\n" +
			"train: {epochs: 1, batch: 32, microbatches: 2}\noptimizer: {name: adam, lr: 0.01}\ncheckpoint: {every: 100}\n"
		var first *berth.Report
		for _, set := range [][]string{nil, {"devices.use=cpu:2"}, {"devices.op_by_op=plain"}, {"partition.recompute=block"}} {
			run, err := berth.Open(t.Context(), runtest.Parsed(t, text, set...), berth.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			report, err := run.Train(t.Context(), berth.TrainOptions{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = report
				if answer, err := run.Eval(t.Context(), berth.Weights{Dir: dir}); err != nil || *answer.Accuracy < 0.8 {
					t.Errorf("%s: accuracy %v, %v", layer, answer, err)
				}
			}
			if err := run.Close(); err != nil {
				t.Error(err)
			}
			if report.WeightsSHA256 != first.WeightsSHA256 {
				t.Errorf("%s: with %v the weights are %s, without %s", layer, set, report.WeightsSHA256, first.WeightsSHA256)
			}
		}
	}
}
