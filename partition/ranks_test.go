package partition_test

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/nets"
)

// deepGPT is a step of a GPT of 12 layers with 12 million parameters.
func deepGPT(t testing.TB, microbatches int) *graph.Graph {
	t.Helper()
	spec := models.Spec{
		Input: shape.I32(64), Target: shape.I32(64), Loss: "cross_entropy", Seed: 3,
		Layers: models.GPT(models.GPTOptions{Vocab: 65, Context: 64, Layers: 12, Heads: 6, Width: 288}, graph.Pos{}),
	}
	o := optim.Spec{Name: "adamw", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.001}, ClipNorm: 1}
	g, err := models.Train(spec, o, models.Size{Microbatch: 1, Microbatches: microbatches, Batch: microbatches, Ring: 4})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// planOfRanks is the plan that rank 0 of so many makes, for a microbatch each.
func planOfRanks(t testing.TB, ranks int) (p *partition.Plan, of []int) {
	t.Helper()
	for r := range ranks {
		of = append(of, r)
	}
	devices := nets.Specs(ranks, 1<<34)
	for i := range devices {
		devices[i].FlopsPerSecond, devices[i].LinkBytesPerS = 1e11, 1e10
	}
	p, err := partition.New(deepGPT(t, ranks), partition.PlanOptions{
		Devices: devices, Ranks: of, Microbatches: ranks, Reduction: partition.ReduceTree, Replicas: ranks, Shard: partition.ShardOptimizer,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, of
}

// BenchmarkPlanOfRank is what one of many ranks does to plan: the plan, its own launches, and what it sends. So do others at the
// same time, on machines of their own.
func BenchmarkPlanOfRank(b *testing.B) {
	for _, ranks := range []int{64, 4096} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, of := planOfRanks(b, ranks)
				launches, err := p.Launches(partition.StepOptions{Microbatches: ranks, Of: of})
				if err != nil {
					b.Fatal(err)
				}
				x := partition.NewExchange(launches, of)
				x.Drops(0)
				x.Senders(x.Users(), nil)
			}
		})
	}
}

// BenchmarkPredictRanks predicts a step of many ranks, as trainer plan --ranks does.
func BenchmarkPredictRanks(b *testing.B) {
	for _, ranks := range []int{64, 256, 4096} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			b.ReportAllocs()
			p, _ := planOfRanks(b, ranks)
			for b.Loop() {
				x, err := p.Predict(nil)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(x.Seconds*1e3, "ms-predicted")
			}
		})
	}
}
