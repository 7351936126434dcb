package bench

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// TestFloors plans the large workloads in little memory.
func TestFloors(t *testing.T) {
	testall.Long(t)
	for _, x := range []struct {
		name  string
		limit int64
		slow  bool
	}{{"gpt-small", 86 << 20, false}, {"gpt2", 789 << 20, true}, {"cnn", 4537 << 10, false}, {"gpt2", 308 << 20, true}} {
		t.Run(fmt.Sprintf("%s in %d KiB", x.name, x.limit>>10), func(t *testing.T) {
			if x.slow && !testall.Wanted() {
				t.Skip("takes longer: TEST_ALL=1 runs it")
			}
			w, err := Lookup(x.name)
			if err != nil {
				t.Fatal(err)
			}
			checkFits(t, planWithin(t, w, 4, x.limit), x.limit)
		})
	}
}

// TestQuarterOfThePeak plans workloads in one microbatch within a quarter of the memory that a step takes.
func TestQuarterOfThePeak(t *testing.T) {
	testall.Long(t)
	for _, name := range []string{"cnn", "gpt-small", "resnet-18"} {
		t.Run(name, func(t *testing.T) {
			w, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			limit := planWithin(t, w, 1, 8<<30).Memory[0].Peak / 4
			checkFits(t, planWithin(t, w, 1, limit), limit)
		})
	}
}

// planWithin plans a workload on one device with so many bytes.
func planWithin(t *testing.T, w Workload, microbatches int, limit int64) *partition.Plan {
	g, err := w.Graph(microbatches, false)
	if err != nil {
		t.Fatal(err)
	}
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer devs[0].Close()
	p, err := partition.New(g, partition.PlanOptions{
		Devices: specsOf(devs), Microbatches: microbatches,
		Estimate: func(d int, g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
			return devs[d].Estimate(g, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func checkFits(t *testing.T, p *partition.Plan, limit int64) {
	if f := p.Memory[0]; f.Floor > limit || f.Moved() == 0 {
		t.Errorf("floor %d of %d, moves %d bytes\n%s", f.Floor, limit, f.Moved(), p.Table(0))
	}
}

// TestPlannedPeakIsMeasured trains workloads for two steps.
func TestPlannedPeakIsMeasured(t *testing.T) {
	names := []string{"mlp", "cnn", "gpt-nano", "gpt-small"}
	if testing.Short() {
		names = names[:2]
	} else if !testall.Wanted() {
		names = names[:3]
	}
	for _, name := range names {
		for _, devices := range []string{"cpu", "cpu:3"} {
			for _, o := range []RunOptions{{Microbatches: 1}, {Microbatches: 4}, {Microbatches: 4, Schedule: "zb-h1"}} {
				if o.Devices = devices; (o.Schedule == "") != (devices == "cpu") && !testall.Wanted() {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d%s", name, devices, o.Microbatches, o.Schedule), func(t *testing.T) {
					w, err := Lookup(name)
					if err != nil {
						t.Fatal(err)
					}
					comparePeaks(t, w, o)
				})
			}
		}
	}
}

func comparePeaks(t *testing.T, w Workload, o RunOptions) {
	s, err := open(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for range 2 {
		if err := s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	for i, f := range s.on.Plan.Memory {
		if got := s.on.Devices[i].Stats().Peak; got != f.Peak {
			t.Errorf("%s: planned %d bytes (%v), measured %d", s.on.Devices[i].ID(), f.Peak, f.PeakBy, got)
		}
	}
}

func specsOf(devs []device.Device) (specs []device.Spec) {
	for _, d := range devs {
		specs = append(specs, d.Spec())
	}
	return specs
}
