package planning_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/planning"
)

const microbatches = 4

// chain is a step of four equal blocks, b0 to b3.
func chain(t *testing.T) *graph.Graph {
	t.Helper()
	g, err := nets.Chain(4, 64, 8, microbatches).Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// plannerOf plans on so many devices, with the keys of the config's partition. Its times are
// those that clock gives.
func plannerOf(t *testing.T, devices int, keys string, clock *clock) *planning.Planner {
	t.Helper()
	text := fmt.Sprintf("data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {batch: 32, microbatches: %d}\ndevices: cpu:%d\npartition: %s\n", microbatches, devices, keys)
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	devs, err := device.Open("cpu", device.OpenOptions{Count: devices, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range devs {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	steps := planning.Steps{Batch: 32, Microbatches: microbatches, LastOf: func(m int) int { return m }}
	return &planning.Planner{Config: c, Devices: devs, Specs: nets.Specs(devices, 0), Steps: steps, Times: clock}
}

// clock has measured times: a node takes a microsecond, one of the slow block a hundred.
type clock struct {
	slow     string // a block
	measured int    // calls of Measure
}

func (c *clock) Seconds(_ []device.Spec, _ int, g *graph.Graph, _ bool) (seconds float64, known bool) {
	for _, n := range g.Nodes {
		seconds += 1e-6
		if n.Layer != nil && n.Layer.Block == c.slow {
			seconds += 1e-4
		}
	}
	return seconds, c.measured > 0
}

func (c *clock) CallSeconds([]device.Spec, int) (float64, bool)             { return 0, false }
func (c *clock) CopySeconds([]device.Spec, int, int, int64) (float64, bool) { return 0, false }
func (c *clock) HostSeconds([]device.Spec, int, int64, bool) (float64, bool) {
	return 0, false
}
func (c *clock) Open() {}
func (c *clock) Measure(context.Context, []device.Device, *partition.Plan, bool, bool) error {
	c.measured++
	return nil
}

// stagesOf lists the stages of a plan: "b0 b1|b2 b3".
func stagesOf(p *partition.Plan) string {
	var list []string
	for _, s := range p.Stages {
		list = append(list, strings.Join(s.Blocks, " "))
	}
	return strings.Join(list, "|")
}

// chosen is the plan that a planner chooses.
func chosen(t *testing.T, p *planning.Planner) planning.Choice {
	t.Helper()
	c, err := p.Choose(t.Context(), chain(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A config that lists no plan gets what its keys ask for, and a note on the device that this
// leaves idle.
func TestAskedFor(t *testing.T) {
	p := plannerOf(t, 3, "{stages: 2, schedule: gpipe}", &clock{})
	c := chosen(t, p)
	if got := stagesOf(c.Plan); got != "b0 b1|b2 b3" || c.Plan.Schedule() != "gpipe" || c.Refit || c.Picked != nil {
		t.Errorf("%s, schedule %s, %+v", got, c.Plan.Schedule(), c)
	}
	if notes := p.Notes(c); len(notes) != 1 || !strings.Contains(notes[0], "cpu:2 idle") {
		t.Errorf("notes %q", notes)
	}
}

// Of the candidates, auto takes the one with the shortest predicted step: two stages where
// arithmetic takes long, and one on fast devices, which would wait for each other.
func TestShortestStep(t *testing.T) {
	for _, x := range []struct {
		flops  float64
		stages int
	}{{1e6, 2}, {1e13, 1}} {
		p := plannerOf(t, 2, "auto", &clock{})
		for d := range p.Specs {
			p.Specs[d].FlopsPerSecond, p.Specs[d].LinkBytesPerS = x.flops, 1e13
		}
		c := chosen(t, p)
		if len(c.Plan.Stages) != x.stages {
			t.Errorf("%v: %d stages", x, len(c.Plan.Stages))
		}
		step, err := c.Plan.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := p.Compare(t.Context(), func(m int) (*graph.Graph, error) { return nets.Chain(4, 64, 8, m).Build() })
		if err != nil {
			t.Fatal(err)
		}
		own := 0
		for _, other := range list {
			if other.OtherWeights || other.Plan == nil {
				continue
			}
			own++
			if other.Prediction.Seconds < 0.97*step.Seconds {
				t.Errorf("%v: a step with %d stages takes %v s, the chosen one %v s", x, other.Stages, other.Prediction.Seconds, step.Seconds)
			}
			if other.Chosen && stagesOf(other.Plan) != stagesOf(c.Plan) {
				t.Errorf("%v: the comparison chooses %s", x, stagesOf(other.Plan))
			}
		}
		if own < 3 {
			t.Errorf("%v: only %d candidates", x, own)
		}
	}
}

// A run goes on with its own plan, even if it would be cut otherwise today. On other devices
// it is planned anew.
func TestPlanOfTheRun(t *testing.T) {
	p := plannerOf(t, 2, "{stages: 2}", &clock{})
	kept := p.Keep(chosen(t, p))
	if kept == nil || len(kept.Stages) != 2 {
		t.Fatalf("%+v is kept", kept)
	}
	kept.Stages = [][]string{{"b0"}, {"b1", "b2", "b3"}}
	p.Config.Partition.Chosen = kept
	if c := chosen(t, p); stagesOf(c.Plan) != "b0|b1 b2 b3" || c.Refit || planning.Elsewhere(p.Config, p.Devices) {
		t.Errorf("resumed: %s, %+v", stagesOf(c.Plan), c)
	}
	kept.Devices = []string{"gpu:0", "gpu:1"}
	if c := chosen(t, p); stagesOf(c.Plan) != "b0 b1|b2 b3" || !planning.Elsewhere(p.Config, p.Devices) {
		t.Errorf("on other devices: %s", stagesOf(c.Plan))
	}
}

// A plan that does not fit is refused. Once devices were lost, the keys of the config give way
// to a plan that does fit, and a note says so.
func TestPlanThatDoesNotFit(t *testing.T) {
	p := plannerOf(t, 2, "{stages: [[b0, b1], [b2, b3]]}", &clock{})
	p.Specs[1].MemoryBytes = 4096
	c, err := p.Choose(t.Context(), chain(t))
	if !errors.Is(err, partition.ErrMemory) || !strings.Contains(err.Error(), "cpu:1") {
		t.Errorf("%v, %+v", err, c.Plan)
	}
	p.Lost = true
	if c = chosen(t, p); !c.Refit || stagesOf(c.Plan) != "b0 b1 b2 b3" || !slices.Equal(c.Plan.Devices(), []int{0}) {
		t.Errorf("%s on %v, %+v", stagesOf(c.Plan), c.Plan.Devices(), c)
	}
	if notes := strings.Join(p.Notes(c), "\n"); !strings.Contains(notes, "1 stage, 1 replica and schedule 1f1b are used") {
		t.Error(notes)
	}
	p.Specs[0].MemoryBytes = 4096
	if c, err := p.Choose(t.Context(), chain(t)); !errors.Is(err, partition.ErrMemory) {
		t.Errorf("%v, %+v", err, c.Plan)
	}
}

// A pin to a device that the run does not have is refused at its place, or gives way.
func TestPinToNoDevice(t *testing.T) {
	p := plannerOf(t, 2, "{stages: 2, pin: {b3: cpu:7}}", &clock{})
	if _, err := p.Choose(t.Context(), chain(t)); !errors.Is(err, partition.ErrStages) || !strings.HasPrefix(err.Error(), "test.yaml:5: partition.pin: ") {
		t.Error(err)
	}
	p.Lost = true
	if notes := p.Notes(chosen(t, p)); len(notes) != 1 || notes[0] != "partition.pin: cpu:7 is not there: b3 is placed anew" {
		t.Errorf("notes %q", notes)
	}
}

// A cut follows from arithmetic, or from measured times where the config asks for them or
// devices are of several kinds. Nothing is timed beside other runs.
func TestMeasuredTimes(t *testing.T) {
	const even, measured = "b0 b1|b2 b3", "b0|b1 b2 b3"
	for _, x := range []struct {
		name, costs string
		kinds       bool
		shared      bool
		want        string
	}{
		{"arithmetic", "flops", true, false, even},
		{"one kind", "auto", false, false, even},
		{"several kinds", "auto", true, false, measured},
		{"measured", "measured", false, false, measured},
		{"beside other runs", "measured", false, true, even},
	} {
		times := &clock{slow: "b0"}
		p := plannerOf(t, 2, "{stages: 2, costs: "+x.costs+"}", times)
		p.Shared = x.shared
		for d := range p.Specs {
			p.Specs[d].CopyOut = true
		}
		if x.kinds {
			p.Specs[1].Kind = "opencl"
		}
		if got := stagesOf(chosen(t, p).Plan); got != x.want || (times.measured > 0) != (x.want == measured) {
			t.Errorf("%s: %s, want %s; %d measurements", x.name, got, x.want, times.measured)
		}
	}
}
