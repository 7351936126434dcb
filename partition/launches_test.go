package partition

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/step"
)

// TestLaunchesFollowTheSchedule lists the launches of two stages.
func TestLaunchesFollowTheSchedule(t *testing.T) {
	for name, want := range map[string]string{
		"gpipe": "s0.F0 s0.F1 s1.F0 s1.F1 s1.B0 s0.B0 s1.B1 s0.B1 s1.U0 s0.U1",
		"1f1b":  "s0.F0 s0.F1 s1.F0 s1.B0 s0.B0 s1.F1 s1.B1 s0.B1 s1.U0 s0.U1",
	} {
		p := mustPlan(t, nets.Chain(2, 4, 2, 2), PlanOptions{Devices: nets.Specs(2, 0), Schedule: name})
		var names []string
		for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 2}) {
			names = append(names, l.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestTrainingGoesBack refuses the schedule of evaluations for a training.
func TestTrainingGoesBack(t *testing.T) {
	g, err := nets.Chain(2, 4, 2, 2).Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(2, 0), Microbatches: 2, Schedule: "forward"}); !errors.Is(err, ErrStages) {
		t.Error(err)
	}
}

// TestFetchKeepsOutputs checks that a step frees its outputs unless they are
// fetched.
func TestFetchKeepsOutputs(t *testing.T) {
	p := mustPlan(t, nets.Tied(2), PlanOptions{Devices: nets.Specs(1, 0)})
	for _, fetch := range []bool{false, true} {
		freed := map[string]bool{}
		for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 2, Fetch: fetch}) {
			for _, o := range l.Over {
				freed[o.Value.Name] = true
			}
		}
		for _, v := range p.Graph.Outputs {
			if freed[v.Name] == fetch {
				t.Errorf("fetch %v: %s is freed: %v", fetch, v.Name, freed[v.Name])
			}
		}
	}
}

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

// TestTailEndsTheStep checks whose segments a shorter, smaller last batch runs.
func TestTailEndsTheStep(t *testing.T) {
	s := nets.Chain(2, 4, 3, 4)
	p := mustPlan(t, s, PlanOptions{Devices: nets.Specs(2, 0)})
	s.Batch = 2
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	q, err := Derive(p, g, DeriveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 3, Tail: q}) {
		want := l.Microbatch == 2 || l.Segment.Pass == schedule.Update
		if l.Tail != want || slices.Contains(segmentsOf(q), l.Segment) != want {
			t.Errorf("%s: of the tail: %v", l.Name(), l.Tail)
		}
		for _, n := range l.Needs {
			if n.Tail != (want && nodes.PerMicrobatch(n.Value)) {
				t.Errorf("%s uses %s of the tail's size: %v", l.Name(), n.Value.Name, n.Tail)
			}
		}
	}
}

func segmentsOf(p *Plan) (all []*Segment) {
	for i := range p.Segments {
		all = append(all, &p.Segments[i])
	}
	return all
}

func mustLaunches(t *testing.T, p *Plan, o StepOptions) []Launch {
	t.Helper()
	ls, err := p.Launches(o)
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

// Listing the launches of many microbatches asks now and then whether to stop.
func TestLaunchesStop(t *testing.T) {
	const microbatches = 4096
	p := mustPlan(t, nets.Chain(2, 4, 2, 2), PlanOptions{Devices: nets.Specs(1, 0)})
	stopped, asks := errors.New("stopped"), 0
	for _, most := range []int{0, 5, 1000} {
		asks = 0
		_, err := p.program().Launches(stop.When(func() error {
			if asks++; asks > most {
				return stopped
			}
			return nil
		}), step.Options{Microbatches: microbatches})
		if errors.Is(err, stopped) != (most < 1000) || asks > most+1 {
			t.Errorf("%d asks: %v", asks, err)
		}
	}
	if asks < 2*microbatches/1024 {
		t.Errorf("it asks %d times", asks)
	}
}
