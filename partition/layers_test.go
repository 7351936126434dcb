package partition

import (
	"testing"

	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/partition/nets"
)

// The layers have all parameters and, but for a few nodes of no layer, all
// arithmetic of the stages, however the plan is cut.
func TestLayers(t *testing.T) {
	s := nets.Chain(7, 16, 8, 4)
	s.Adam, s.Stats, s.Dropout = true, true, true
	var resident int64
	for name, o := range map[string]PlanOptions{
		"one stage":  {Devices: nets.Specs(1, 0)},
		"two stages": {Devices: nets.Specs(2, 0), Count: 2},
		"recomputed": {Devices: nets.Specs(2, 0), Count: 2, Recompute: RecomputeBlock},
		"replicas":   {Devices: nets.Specs(4, 0), Count: 2, Replicas: 2, Reduction: ReduceTree, Shard: ShardOptimizer},
	} {
		p := mustPlan(t, s, o)
		var all LayerLoad
		for _, l := range p.Layers() {
			all.Parameters, all.Flops, all.Resident = all.Parameters+l.Parameters, all.Flops+l.Flops, all.Resident+l.Resident
		}
		var parameters, flops int64
		for _, x := range p.Stages {
			parameters, flops = parameters+x.Parameters, flops+x.Flops
		}
		if all.Parameters != parameters || all.Flops > flops || all.Flops < flops*9/10 {
			t.Errorf("%s: %d parameters, %d flops of layers; %d and %d of stages", name, all.Parameters, all.Flops, parameters, flops)
		}
		if resident == 0 {
			resident = all.Resident
		}
		if all.Resident != resident {
			t.Errorf("%s: %d bytes are resident, elsewhere %d", name, all.Resident, resident)
		}
	}
	golden.Check(t, "testdata/layers.txt", mustPlan(t, s, PlanOptions{Devices: nets.Specs(2, 0), Count: 3}).LayerTable(0))
}
