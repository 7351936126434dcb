package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
)

// An interleaved schedule goes round the devices, with two stages on each where
// there are blocks enough.
func TestInterleavedStages(t *testing.T) {
	for _, c := range []struct {
		blocks, devices, count int
		want                   []int
	}{{8, 2, 0, []int{0, 1, 0, 1}}, {3, 2, 0, []int{0, 1}}, {8, 1, 0, []int{0}}, {8, 2, 6, []int{0, 1, 0, 1, 0, 1}}, {8, 2, 3, []int{0, 1, 0}}, {8, 2, 2, []int{0, 1}}} {
		p := mustPlan(t, nets.Chain(c.blocks, 4, 2, 2), PlanOptions{Devices: nets.Specs(c.devices, 0), Count: c.count, Microbatches: 2, Schedule: "interleaved"})
		var got []int
		for _, s := range p.Stages {
			got = append(got, s.Device)
		}
		if !slices.Equal(got, c.want) || p.Fewer != nil {
			t.Errorf("%+v: devices %v, %v", c, got, p.Fewer)
		}
	}
}

// A plan of the forward phase has as many stages as the whole one, and says the same of them.
func TestCheckedKeepsFewer(t *testing.T) {
	for _, count := range []int{5, 3} {
		p := mustPlan(t, nets.Chain(3, 16, 8, 1), PlanOptions{Devices: nets.Specs(1, 0), Count: count})
		f, err := Derive(p, p.Graph, DeriveOptions{For: Checked})
		if err != nil {
			t.Fatal(err)
		}
		if f.Fewer != p.Fewer || (p.Fewer != nil) != (count > 3) {
			t.Errorf("the plan of the forward phase says %v, the whole plan %v", f.Fewer, p.Fewer)
		}
	}
}

// Evaluation keeps each stage where its weights are.
func TestAnswersKeepDevices(t *testing.T) {
	p := mustPlan(t, nets.Chain(4, 4, 2, 2), PlanOptions{Devices: nets.Specs(2, 0), Count: 4, Microbatches: 2, Schedule: "interleaved"})
	q, err := Derive(p, p.Graph, DeriveOptions{For: Answers})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range q.Stages {
		if s.Device != p.Stages[i].Device {
			t.Errorf("stage %d is on device %d, and was trained on %d", i, s.Device, p.Stages[i].Device)
		}
	}
}

func written(t *testing.T, text string) *schedule.Schedule {
	t.Helper()
	s, err := schedule.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

const twoRounds = "schedule mine stages 4 microbatches 2 workers 2\n0 (0 3): 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n1 (1 2): 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n"

// A schedule of the caller's decides the stages and their devices; on fewer devices
// its workers share them. A smaller step leaves microbatches out.
func TestOrder(t *testing.T) {
	for devices, want := range map[int]string{1: "[0 0 0 0]", 2: "[0 1 1 0]", 3: "[0 1 1 0]"} {
		p := mustPlan(t, nets.Chain(5, 4, 2, 2), PlanOptions{Devices: nets.Specs(devices, 0), Microbatches: 2, Order: written(t, twoRounds)})
		var got []int
		for _, s := range p.Stages {
			got = append(got, s.Device)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%d devices: stages are on %v", devices, got)
		}
		s, err := p.ScheduleOf(1)
		if err != nil || s.Microbatches != 1 || s.Validate() != nil {
			t.Errorf("%v, %v", s, err)
		}
		launches, err := p.Launches(StepOptions{Microbatches: 2})
		if err != nil || len(launches) < 16 {
			t.Errorf("%d launches, %v", len(launches), err)
		}
	}
}

// Pins and lists of stages win over the devices of a caller's schedule: they may put
// its workers on one device, or a worker's stages on two.
func TestOrderWithPins(t *testing.T) {
	const two = "schedule f stages 2 microbatches 2\n0: 0F0 0F1 0B0 0B1 0U\n1: 1F0 1B0 1F1 1B1 1U\n"
	const one = "schedule f stages 2 microbatches 2 workers 1\n0 (0 1): 0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1 0U 1U\n"
	stages := [][]string{{"b0"}, {"b1", "b2"}}
	for _, c := range []struct {
		order string
		pin   map[string]int
		want  string
	}{{two, map[string]int{"b0": 1, "b1": 1}, "[1 1]"}, {two, map[string]int{"b0": 1, "b1": 0}, "[1 0]"}, {one, map[string]int{"b0": 0, "b1": 1}, "[0 1]"}, {one, map[string]int{"b1": 1}, "[0 1]"}} {
		p := mustPlan(t, nets.Chain(3, 4, 2, 2), PlanOptions{Devices: nets.Specs(2, 0), Microbatches: 2, Stages: stages, Pin: c.pin, Order: written(t, c.order)})
		s, err := p.ScheduleOf(2)
		if err != nil || fmt.Sprint(s.Workers) != c.want || s.Validate() != nil {
			t.Errorf("%v: %v, %v, %v", c, s, err, s.Validate())
		}
	}
}

// Each replica has as many devices as any other, whatever the schedule was made for.
func TestOrderOfReplicas(t *testing.T) {
	const text = "schedule f stages 2 microbatches 2 replicas 2\n0: 0F0 0B0 0U\n1: 1F0 1B0 1U\n2: 0F1@1 0B1@1 0U@1\n3: 1F1@1 1B1@1 1U@1\n"
	for devices, want := range map[int]string{2: "[0 0 1 1]", 3: "[0 0 1 1]", 4: "[0 1 2 3]", 6: "[0 1 3 4]"} {
		p := mustPlan(t, nets.Chain(3, 4, 2, 2), PlanOptions{Devices: nets.Specs(devices, 0), Replicas: 2, Reduction: ReduceTree, Order: written(t, text)})
		s, err := p.ScheduleOf(2)
		if err != nil || fmt.Sprint(s.Workers) != want || s.Validate() != nil {
			t.Errorf("%d devices: %v, %v", devices, s, err)
		}
		for stage := range p.Stages {
			for r, d := range p.DevicesOf(stage) {
				if d != s.Worker(stage, r) {
					t.Errorf("%d devices: stage %d of replica %d is planned on device %d, and scheduled on %d", devices, stage, r, d, s.Worker(stage, r))
				}
			}
		}
	}
}

func TestOrderErrors(t *testing.T) {
	g, err := nets.Chain(3, 4, 2, 2).Build()
	if err != nil {
		t.Fatal(err)
	}
	const split = "schedule f stages 2 microbatches 2 replicas 2 workers 3\n0 (0): 0F0 0B0 0U\n1 (1 1@1): 1F0 1B0 1F1@1 1B1@1 1U 1U@1\n2 (0@1): 0F1@1 0B1@1 0U@1\n"
	for want, o := range map[string]PlanOptions{
		"it is for 2 microbatches, but train.microbatches is 3":                       {Microbatches: 3, Order: written(t, twoRounds)},
		"it is for 4 stages, but partition.stages asks for 3":                         {Microbatches: 2, Count: 3, Order: written(t, twoRounds)},
		"it is for 4 stages, but partition.stages asks for 1":                         {Microbatches: 2, Stages: [][]string{{"b0"}}, Order: written(t, twoRounds)},
		"the schedule is for 4 stages: 4 stages asked for but only 3 blocks":          {Microbatches: 2, Order: written(t, twoRounds)},
		"it has no backward pass":                                                     {Order: written(t, "schedule f stages 1 microbatches 1\n0: 0F0 0U\n")},
		"it is for 2 replicas, but partition.replicas is 1":                           {Order: written(t, "schedule f stages 1 microbatches 1 replicas 2\n0: 0F0 0B0 0U\n1: 0U@1\n")},
		"each replica needs workers of its own":                                       {Replicas: 2, Reduction: ReduceTree, Microbatches: 2, Order: written(t, split)},
		"it contains reductions":                                                      {Microbatches: 2, Order: written(t, "schedule f stages 1 microbatches 2\n0: 0F0 0B0 0F1 0B1 0R1 0U\n")},
		"0B0 is in a deadlock: it waits for 1B0":                                      {Order: &schedule.Schedule{Name: "x", Stages: 2, Microbatches: 1, Replicas: 1, Workers: []int{0, 0}, Rows: [][]schedule.Action{{{Kind: 'F'}, {Kind: 'B'}, {Kind: 'U'}, {Stage: 1, Kind: 'F'}, {Stage: 1, Kind: 'B'}, {Stage: 1, Kind: 'U'}}}}},
		"the schedule \"forward\" has no backward pass; use another one for training": {Schedule: "forward"},
	} {
		o.Devices = nets.Specs(2, 0)
		if _, err := New(g, o); !errors.Is(err, ErrStages) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// Stages and devices that no graph can have are refused, whatever the blocks.
func TestStagesThatCannotBe(t *testing.T) {
	two, one := nets.Specs(2, 0), nets.Specs(1, 0)
	g := mustBuild(t, nets.Chain(3, 4, 2, 2))
	for want, o := range map[string]PlanOptions{
		"there is no device": {},
		"-1 stages":          {Devices: one, Count: -1},
		"Count asks for 2 stages, but 1 are listed":                                         {Devices: one, Count: 2, Stages: [][]string{{"b0"}}},
		"a stage is on device 7, but there are 2 devices":                                   {Devices: two, Pin: map[string]int{"b0": 7}},
		"put both in one stage":                                                             {Devices: two, Stages: [][]string{{"b1", "b2"}, {"b0"}}},
		`"b0" is pinned to cpu:1, and the first of 2 replicas has cpu:0`:                    {Devices: two, Pin: map[string]int{"b0": 1}, Replicas: 2, Microbatches: 2, Reduction: ReduceTree},
		`"b1" is pinned to cpu:1, and the first of 2 replicas has cpu:0; name one of those`: {Devices: two, Pin: map[string]int{"b1": 1}, Stages: [][]string{{"b0", "b1", "b2"}}, Replicas: 2, Microbatches: 2, Reduction: ReduceTree},
		`stage 1 is on cpu:1, and the first`:                                                {Devices: two, On: []int{0, 1}, Stages: [][]string{{"b0", "b1"}, {"b2"}}, Replicas: 2, Microbatches: 2, Reduction: ReduceTree},
	} {
		if _, err := New(g, o); !errors.Is(err, ErrStages) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// onlyRuns are devices that refuse nodes for which refused is true of their index.
func onlyRuns(refused func(d int, n *graph.Node) bool) Supports {
	return func(d int, n *graph.Node) error {
		if refused(d, n) {
			return fmt.Errorf("%w: no kernel", device.ErrUnsupported)
		}
		return nil
	}
}

// A block that a device of the second replica does not run is refused by name: the first
// replica's device stands for it.
func TestUnsupportedOnAReplica(t *testing.T) {
	o := PlanOptions{Devices: nets.Specs(2, 0), Replicas: 2, Microbatches: 2, Reduction: ReduceTree}
	o.Supports = onlyRuns(func(d int, n *graph.Node) bool { return d == 1 && nodes.BlockOf(n.Layer) == "b1" })
	if _, err := New(mustBuild(t, nets.Chain(2, 4, 2, 2)), o); !errors.Is(err, ErrStages) || !strings.Contains(fmt.Sprint(err), "b1") || !strings.Contains(fmt.Sprint(err), "cpu:1: no kernel") {
		t.Error(err)
	}
}
