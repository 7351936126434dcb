package bench

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
)

// TestFloors plans the large workloads in little memory.
func TestFloors(t *testing.T) {
	for _, x := range []struct {
		name  string
		limit int64
	}{{"gpt-small", 86 << 20}, {"gpt2", 789 << 20}} {
		t.Run(x.name, func(t *testing.T) {
			w, err := Lookup(x.name)
			if err != nil {
				t.Fatal(err)
			}
			g, err := w.Graph(4, false)
			if err != nil {
				t.Fatal(err)
			}
			devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: x.limit})
			if err != nil {
				t.Fatal(err)
			}
			defer devs[0].Close()
			p, err := partition.New(g, partition.PlanOptions{
				Devices: specs(devs), Microbatches: 4,
				Estimate: func(d int, g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
					return devs[d].Estimate(g, o)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + p.Table())
		})
	}
}
