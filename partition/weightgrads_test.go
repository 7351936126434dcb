package partition

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
)

// TestWeightsArePassesOfTheirOwn lists the launches of three stages. Nobody waits for
// a gradient of the first one: it has no B.
func TestWeightsArePassesOfTheirOwn(t *testing.T) {
	p := mustPlan(t, nets.Chain(3, 4, 2, 2), PlanOptions{Devices: nets.Specs(3, 0), Schedule: "zb-h1"})
	var names []string
	for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 2}) {
		names = append(names, l.Name())
	}
	want := "s0.F0 s0.F1 s1.F0 s1.F1 s2.F0 s2.B0 s1.B0 s2.F1 s2.B1 s0.W0 s1.B1 s2.W0 s1.W0 s2.W1 s0.W1 s1.W1 s2.U0 s0.U1 s1.U1"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestActionFlopsAddUp: the passes of a stage share its arithmetic.
func TestActionFlopsAddUp(t *testing.T) {
	for _, name := range []string{"1f1b", "zb-h1"} {
		for _, microbatches := range []int{1, 3} {
			p := mustPlan(t, nets.Chain(3, 4, 2, microbatches), PlanOptions{Devices: nets.Specs(3, 0), Schedule: name})
			for _, s := range p.Stages {
				of := func(k schedule.Kind) float64 { return p.ActionFlops().Action(schedule.Action{Stage: s.Index, Kind: k}) }
				if all := of(schedule.Forward) + of(schedule.Backward) + of(schedule.Weights); all != float64(s.Flops) {
					t.Errorf("%s: stage %d has %v flops in its passes, and %d in all", name, s.Index, all, s.Flops)
				}
				if first := s.Index == 0; name == "zb-h1" && (of(schedule.Backward) == 0) != first || (of(schedule.Weights) > 0) != (name == "zb-h1") {
					t.Errorf("%s: stage %d has %v flops in B, %v in W", name, s.Index, of(schedule.Backward), of(schedule.Weights))
				}
			}
		}
	}
}

// TestBackwardIsWhatOtherStagesAwait checks both sides of the cut: no stage awaits a
// result of W, and some stage awaits what each node of B leads to.
func TestBackwardIsWhatOtherStagesAwait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		o := drawOptions(t, s)
		o.Schedule = "zb-h1"
		p, err := New(g, o)
		if err != nil {
			t.Fatal(err)
		}
		in := map[*graph.Node]*Segment{} // nodes of B and W
		for i := range p.Segments {
			for _, n := range p.Segments[i].First.Graph.Nodes {
				in[n] = &p.Segments[i]
			}
		}
		leads := map[*graph.Node]bool{} // nodes of B: to what another stage reads
		for i := len(p.Graph.Nodes) - 1; i >= 0; i-- {
			n := p.Graph.Nodes[i]
			at := in[n]
			for _, v := range n.Out {
				for _, r := range p.index.Readers[v.ID] {
					away := r.Phase == graph.Backward && in[r].Stage != at.Stage
					if at.Pass == schedule.Weights && (away || in[r].Pass == schedule.Backward) {
						t.Fatalf("%s makes %s, which %s reads", at.Name, v.Name, in[r].Name)
					}
					leads[n] = leads[n] || away || leads[r]
				}
			}
			if at.Pass == schedule.Backward && !leads[n] {
				t.Fatalf("%s runs %v, for which nobody waits", at.Name, n)
			}
		}
	})
}

// TestAnyScheduleIsTheWholeGraph trains by random schedules, with W after its B at any
// distance.
func TestAnyScheduleIsTheWholeGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		o := drawOptions(t, s)
		o.Stages, o.Count, o.Replicas = oneStageEach(s), 0, 0
		order := drawSchedule(t, len(o.Stages), s.Microbatches, len(o.Devices))
		o.Order = &order
		p, err := New(g, o)
		if err != nil {
			t.Fatalf("%v\n%v", err, order)
		}
		checkPlan(t, p)
		vars, in := start(g, s.Microbatches, 1)
		want, err := runWhole(g, vars, in, o.Reduction)
		if err != nil {
			t.Fatal(err)
		}
		k := newMachine(p, vars, in)
		got, err := k.runStep(StepOptions{Microbatches: s.Microbatches})
		if err != nil {
			t.Fatalf("%v\n%v", err, order)
		}
		if d := differ(want, got); d != "" {
			t.Fatalf("%s\n%v", d, order)
		}
		if left := k.left(); len(left) > 0 {
			t.Fatalf("never freed: %v\n%v", left, order)
		}
	})
}

// oneStageEach makes each block a stage.
func oneStageEach(s nets.Net) (stages [][]string) {
	for i := range s.Blocks {
		stages = append(stages, []string{fmt.Sprintf("b%d", i)})
	}
	return stages
}

// drawSchedule makes a random schedule: whatever can be done next is.
func drawSchedule(t *rapid.T, stages, microbatches, devices int) schedule.Schedule {
	s := schedule.Schedule{Name: "drawn", Stages: stages, Microbatches: microbatches, Replicas: 1, Rows: make([][]schedule.Action, min(stages, devices))}
	for stage := range stages {
		s.Workers = append(s.Workers, stage*len(s.Rows)/stages)
	}
	kinds := []schedule.Kind{schedule.Forward, schedule.Backward, schedule.Weights}
	if rapid.Bool().Draw(t, "no W") {
		kinds = kinds[:2]
	}
	done := map[schedule.Kind][]int{} // by stage: microbatches
	for _, k := range kinds {
		done[k] = make([]int, stages)
	}
	can := func(k schedule.Kind, stage int) bool {
		switch m := done[k][stage]; {
		case m == microbatches:
			return false
		case k == schedule.Forward:
			return stage == 0 || m < done[k][stage-1]
		case k == schedule.Backward:
			return m < done[schedule.Forward][stage] && (stage == stages-1 || m < done[k][stage+1])
		default:
			return m < done[schedule.Backward][stage]
		}
	}
	for {
		var next []schedule.Action
		for stage := range stages {
			for _, k := range kinds {
				if can(k, stage) {
					next = append(next, schedule.Action{Stage: stage, Kind: k, Microbatch: done[k][stage]})
				}
			}
		}
		if len(next) == 0 {
			break
		}
		a := rapid.SampledFrom(next).Draw(t, "action")
		done[a.Kind][a.Stage]++
		w := s.Workers[a.Stage]
		s.Rows[w] = append(s.Rows[w], a)
	}
	for stage, w := range s.Workers {
		s.Rows[w] = append(s.Rows[w], schedule.Action{Stage: stage, Kind: schedule.Update})
	}
	return s
}
