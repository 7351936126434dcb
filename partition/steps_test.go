package partition

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// TestSumsLastOverTheStep sums a value that nothing but the caller asks for: each
// microbatch adds to it.
func TestSumsLastOverTheStep(t *testing.T) {
	b := graph.NewBuilder("sum", 3)
	b.Output("total", b.Accumulate(ops.Tanh(b, b.Input("x", shape.F32(2))), ops.AddOp))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: nets.Specs(1, 0), Microbatches: 3})
	if err != nil {
		t.Fatal(err)
	}
	vars, in := start(g, 3, 1)
	k := newMachine(p, vars, in)
	if _, err := k.runStep(StepOptions{Microbatches: 3}); err != nil || len(k.left()) > 0 {
		t.Error(err, k.left())
	}
}

// TestSumsOfEveryLength runs steps of every length of two numbers of microbatches,
// the last one smaller, with every cut and schedule. All give what a recursion over
// the parts gives, and keep at most the partial sums that a counter has.
func TestSumsOfEveryLength(t *testing.T) {
	const most = 17
	s := nets.Tied(most)
	small := s
	small.Batch = 1
	g, h := mustBuild(t, s), mustBuild(t, small)
	vars, in := start(g, most, 5)
	_, last := start(h, most, 6)
	for i, o := range []PlanOptions{
		{Devices: nets.Specs(1, 0)},
		{Devices: nets.Specs(2, 0), Schedule: "gpipe", grains: []segment.Grain{segment.ByBlock}},
		{Devices: nets.Specs(3, 0), Recompute: RecomputeCheap, grains: []segment.Grain{segment.ByNode}},
	} {
		o.Microbatches, o.Reduction = most, ReduceTree
		p, err := New(g, o)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Derive(p, h, DeriveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for n := 1 + i%2; n <= most; n += 1 + i {
			t.Run(fmt.Sprintf("%d/%d", i, n), func(t *testing.T) {
				feed := append(in[:n-1:n-1], last[n-1])
				want, err := runMixedWhole(g, h, vars, feed, ReduceTree)
				if err != nil {
					t.Fatal(err)
				}
				k := newMachine(p, vars, feed)
				got, err := k.runStep(StepOptions{Microbatches: n, Tail: q})
				if err != nil {
					t.Fatal(err)
				}
				if d := differ(want, got); d != "" {
					t.Error(d)
				}
				if k.most > nodes.PartialSums(n) {
					t.Errorf("%d sums at once, a counter has %d", k.most, nodes.PartialSums(n))
				}
			})
		}
	}
}

// TestReductionsRound tells the two apart from 4 microbatches on.
func TestReductionsRound(t *testing.T) {
	for microbatches := 1; microbatches <= 8; microbatches++ {
		var after [2]state
		for i, r := range []Reduction{ReduceOrder, ReduceTree} {
			p := mustPlan(t, nets.Chain(3, 4, 2, microbatches), PlanOptions{Devices: nets.Specs(1, 0), Reduction: r})
			vars, in := start(p.Graph, microbatches, 3)
			var err error
			if after[i], err = newMachine(p, vars, in).runStep(StepOptions{Microbatches: microbatches}); err != nil {
				t.Fatal(err)
			}
		}
		if same := differ(after[0], after[1]) == ""; same != (microbatches < 4) {
			t.Errorf("%d microbatches: the same %v", microbatches, same)
		}
	}
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
