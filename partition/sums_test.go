package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

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
