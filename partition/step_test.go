package partition

import (
	"errors"
	"fmt"
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
	"github.com/berth-ml/berth/partition/segment"
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
				freed[l.Needs[o].Value.Name] = true
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

// TestLaunchesOfSums lists the launches that add partial sums, and where they stand.
func TestLaunchesOfSums(t *testing.T) {
	for microbatches, want := range map[int]string{
		1: "FBU0",
		2: "F0 B0 F1 B1 U0",
		3: "F0 B0 F1 B1 F2 FR0-3 B2 BR0-3 U0",
		4: "F0 B0 F1 B1 F2 B2 F3 FR0-4 B3 BR0-4 U0",
		7: "F0 B0 F1 B1 F2 B2 F3 FR0-4 B3 BR0-4 F4 B4 F5 B5 F6 FR4-7 FR0-7 B6 BR4-7 BR0-7 U0",
	} {
		p := mustPlan(t, nets.Chain(1, 4, 2, microbatches), PlanOptions{Devices: nets.Specs(1, 0), Reduction: ReduceTree})
		var names []string
		for _, l := range mustLaunches(t, p, StepOptions{Microbatches: microbatches}) {
			names = append(names, strings.TrimPrefix(l.Name(), "s0."))
			if l.Reduces() != strings.Contains(l.Name(), "R") {
				t.Errorf("%s reduces: %v", l.Name(), l.Reduces())
			}
		}
		got := strings.Join(names, " ")
		if got != want {
			t.Errorf("%d microbatches: %s, want %s", microbatches, got, want)
		}
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

func mustBuild(t *testing.T, s nets.Net) *graph.Graph {
	t.Helper()
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
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

// TestReplicasAddLast checks that no replica waits for another one's sums before it is
// done with its own backward passes.
func TestReplicasAddLast(t *testing.T) {
	for _, shard := range []Shard{ShardNone, ShardOptimizer} {
		p := mustPlan(t, nets.Chain(3, 4, 2, 8), PlanOptions{Devices: nets.Specs(4, 0), Replicas: 4, Shard: shard, Reduction: ReduceTree})
		added := map[int]bool{} // by device
		for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 8}) {
			switch {
			case l.Reduces() && l.Hi-l.Lo > 2:
				added[l.Device] = true
			case l.Segment.Pass == schedule.Backward && added[l.Device] && !l.Reduces():
				t.Errorf("%s of shard %s comes after sums of other replicas", l.Name(), shard)
			}
		}
		if len(added) == 0 {
			t.Error("no replica adds sums of others")
		}
	}
}

// TestReplicasTakeTurns gives replicas microbatches in any order: each adds sums alone
// only if all of their microbatches are its own.
func TestReplicasTakeTurns(t *testing.T) {
	const text = "schedule turns stages 1 microbatches 4 replicas 2\n0: 0F0 0B0 0F3 0B3 0U\n1: 0F1@1 0B1@1 0F2@1 0B2@1 0U@1\n"
	order, err := schedule.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, nets.Chain(3, 4, 2, 4), PlanOptions{Devices: nets.Specs(2, 0), Order: &order, Replicas: 2, Shard: ShardOptimizer, Reduction: ReduceTree, unit: 1})
	replica, shared := [...]int{0, 1, 1, 0}, 0
	for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 4}) {
		if l.Reduces() && slices.ContainsFunc(l.Segment.ReduceOn, func(v Variant) bool { return v.Graph == l.Variant.Graph }) {
			shared++
		}
		for m := l.Lo; m < l.Hi && l.Reduces() && l.Variant == &l.Segment.Reduce; m++ {
			if replica[m] != l.Replica {
				t.Errorf("%s adds microbatch %d of replica %d on replica %d", l.Name(), m, replica[m], l.Replica)
			}
		}
	}
	if shared == 0 {
		t.Error("no sums of two replicas are added")
	}
}

// Each instance of a step has a number of its own, counted by first use; so has a step with
// a smaller tail, and one of replicas.
func TestInstancesAreNumbered(t *testing.T) {
	p := mustPlan(t, nets.Tied(5), PlanOptions{Devices: nets.Specs(4, 0), Count: 2, Replicas: 2, Reduction: ReduceTree, Shard: ShardOptimizer})
	tail, err := Derive(p, p.Graph, DeriveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []StepOptions{{Microbatches: 5}, {Microbatches: 3}, {Microbatches: 5, Tail: tail}} {
		numbers := map[step.ID]int{}
		for _, l := range mustLaunches(t, p, o) {
			for _, n := range l.Needs {
				number, known := numbers[n.ID()]
				if !known {
					number = len(numbers)
					numbers[n.ID()] = number
				}
				if n.Number != number {
					t.Fatalf("%s uses %s of microbatch %d, which is the instance %d: it says %d", l.Name(), n.Value.Name, n.Microbatch, number, n.Number)
				}
			}
		}
	}
}
