package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"pgregory.net/rapid"
)

// TestMerging compares the segments of each stage, first to last.
func TestMerging(t *testing.T) {
	clipped, plain := nets.Tied(1), nets.Tied(1)
	plain.Clip = false
	three := [][]string{{"b0"}, {"b1"}, {"b2"}}
	for _, c := range []struct {
		name string
		Net  nets.Net
		o    PlanOptions
		want string
	}{
		{"one stage", clipped, PlanOptions{}, "FBU"},
		{"apart", clipped, PlanOptions{Apart: true}, "F B U"},
		{"two microbatches", nets.Tied(2), PlanOptions{}, "F B U"},
		{"three stages, of which the last knows the norm", clipped, PlanOptions{Stages: three}, "F BU U, F BU U, FBU U"},
		{"three stages without clipping", plain, PlanOptions{Stages: three}, "F BU, F BU, FBU"},
	} {
		c.o.Devices = nets.Specs(3, 0)
		if c.o.Stages == nil {
			c.o.Devices = nets.Specs(1, 0)
		}
		p := mustPlan(t, c.Net, c.o)
		var got []string
		for s := range p.Stages {
			got = append(got, passesText(p.segmentsOf()[s]))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// TestUpdatesFollowTheCheck: in a merged segment no update comes before the
// node that refuses a loss, and each comes right after the nodes it waits for.
func TestUpdatesFollowTheCheck(t *testing.T) {
	p := mustPlan(t, nets.Tied(1), PlanOptions{Devices: nets.Specs(1, 0)})
	checked, last := false, graph.Forward
	early := 0
	for _, n := range p.Segments[0].First.Graph.Nodes {
		checked = checked || n.Op.Kind() == "check_finite"
		if n.Phase == graph.Update && !checked {
			t.Errorf("%v runs before the loss is checked", n)
		}
		if n.Phase == graph.Backward && last == graph.Update {
			early++
		}
		last = n.Phase
	}
	if early < 2 {
		t.Errorf("updates stand in front of the backward pass %d times", early)
	}
}

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

func TestOneStageHasNoTransfers(t *testing.T) {
	p := mustPlan(t, nets.Tied(3), PlanOptions{Devices: nets.Specs(1, 0)})
	if len(p.Transfers) != 0 || len(p.Segments) != 3 || p.Stages[0].BytesIn != 0 {
		t.Errorf("transfers %v, %d segments", p.Transfers, len(p.Segments))
	}
}

// TestTransfers checks the rates, and that the totals of the stages agree with
// the list.
func TestTransfers(t *testing.T) {
	p := mustPlan(t, nets.Tied(2), PlanOptions{Devices: nets.Specs(2, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	rates := map[string]Rate{}
	var in, out, listed int64
	for _, tr := range p.Transfers {
		rates[fmt.Sprintf("%s %d-%d", tr.Value.Name, tr.From, tr.To)] = tr.Rate
		if tr.Local != (tr.From < 2 && tr.To < 2) {
			t.Errorf("%v is local: %v", tr, tr.Local)
		}
		if tr.Rate == PerMicrobatch {
			listed += tr.Bytes
		}
	}
	for _, s := range p.Stages {
		in, out = in+s.BytesIn, out+s.BytesOut
	}
	if in != listed || out != listed || listed == 0 {
		t.Errorf("in %d, out %d, listed %d", in, out, listed)
	}
	if r, ok := rates["b0.weight 0-2"]; !ok || r != PerStep {
		t.Errorf("the tied weight moves once per %v (%v): %v", r, ok, rates)
	}
	s := nets.Tied(2)
	s.Blocks[0].Frozen = true
	p = mustPlan(t, s, PlanOptions{Devices: nets.Specs(3, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	for _, tr := range p.Transfers {
		if tr.Value.Name == "b0.weight" && tr.Rate != PerRun {
			t.Errorf("the frozen weight moves once per %v", tr.Rate)
		}
	}
}

// TestGradientsCrossOnce cuts a residual block from what it reads: the gradients that
// come back are added before they leave.
func TestGradientsCrossOnce(t *testing.T) {
	s := nets.Chain(3, 4, 2, 2)
	s.Blocks[2].Skip = 1
	p := mustPlan(t, s, PlanOptions{Devices: nets.Specs(2, 0), Stages: [][]string{{"b0", "b1"}, {"b2"}}})
	var back []string
	for _, x := range p.Transfers {
		if x.To == 0 && x.Rate == PerMicrobatch {
			back = append(back, x.Value.Name)
		}
	}
	if len(back) != 1 || p.Stages[0].BytesIn != p.Stages[0].BytesOut {
		t.Errorf("%v comes back: %d bytes for %d", back, p.Stages[0].BytesIn, p.Stages[0].BytesOut)
	}
}
