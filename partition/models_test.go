package partition

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// TestModels cuts a small GPT with a tied head, and a convolutional net, in
// every number of stages: the step must be that of the whole graph.
func TestModels(t *testing.T) {
	gpt := models.Spec{
		Input: shape.I32(4), Target: shape.I32(4), Loss: "cross_entropy", Seed: 3,
		Layers: models.GPT(models.GPTOptions{Vocab: 7, Context: 4, Layers: 2, Heads: 2, Width: 8, Dropout: 0.1}, graph.Pos{}),
	}
	cnn := models.Spec{
		Input: shape.F32(1, 6, 6), Target: shape.I32(), Loss: "cross_entropy", Seed: 3,
		Layers: append([]models.Layer{{Type: "batchnorm", Name: "norm", Momentum: 0.1, Eps: 1e-5}}, models.CNN([]int{3}, 3, []int{5}, "relu", 7, graph.Pos{})...),
	}
	o := optim.Spec{Name: "adamw", Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1, ClipNorm: 1, Schedule: ops.LearningRate{Schedule: "constant", Base: 0.01}}
	for name, spec := range map[string]models.Spec{"gpt": gpt, "cnn": cnn} {
		g, err := models.Train(spec, o, models.Size{Microbatch: 2, Microbatches: 3, Batch: 6, Ring: 4})
		if err != nil {
			t.Fatal(err)
		}
		vars, in := start(g, 3, 11)
		want, err := runWhole(g, vars, in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			n, again := 1+i/3, []Recompute{RecomputeNone, RecomputeCheap, RecomputeBlock}[i%3]
			t.Run(fmt.Sprintf("%s/%d/%s", name, n, again), func(t *testing.T) {
				p, err := New(g, PlanOptions{Devices: specs(n, 0), Microbatches: 3, Recompute: again})
				if err != nil {
					t.Fatal(err)
				}
				got, err := newMachine(p, vars, in).runPlan(3)
				if err != nil {
					t.Fatalf("%v\n%s", err, p.Dump())
				}
				if d := differ(want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}
