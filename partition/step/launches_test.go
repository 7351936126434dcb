package step_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/step"
)

// namesOf lists launches: "s0.F0 s0.B0".
func namesOf(launches []step.Launch) string {
	var names []string
	for i := range launches {
		names = append(names, launches[i].Name())
	}
	return strings.Join(names, " ")
}

// TestLaunchesFollowTheSchedule lists the launches of two stages.
func TestLaunchesFollowTheSchedule(t *testing.T) {
	for name, want := range map[string]string{
		"gpipe": "s0.F0 s0.F1 s1.F0 s1.F1 s1.B0 s0.B0 s1.B1 s0.B1 s1.U0 s0.U1",
		"1f1b":  "s0.F0 s0.F1 s1.F0 s1.B0 s0.B0 s1.F1 s1.B1 s0.B1 s1.U0 s0.U1",
	} {
		s := passes.EachBlock(2)
		s.Schedule = name
		if got := namesOf(passes.Launches(t, s.Program(t, nets.Chain(2, 4, 2, 2)), step.Options{Microbatches: 2})); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestWeightsArePassesOfTheirOwn lists the launches of three stages. Nobody waits for
// a gradient of the first one: it has no B.
func TestWeightsArePassesOfTheirOwn(t *testing.T) {
	s := passes.EachBlock(3)
	s.Schedule = "zb-h1"
	want := "s0.F0 s0.F1 s1.F0 s1.F1 s2.F0 s2.B0 s1.B0 s2.F1 s2.B1 s0.W0 s1.B1 s2.W0 s1.W0 s2.W1 s0.W1 s1.W1 s2.U0 s0.U1 s1.U1"
	if got := namesOf(passes.Launches(t, s.Program(t, nets.Chain(3, 4, 2, 2)), step.Options{Microbatches: 2})); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTensorsAreThere walks the launches of random steps. Each reads tensors that a launch
// before it has written, or that the step begins with, and none that is over. What the
// step makes is over once, with its last use, unless it is a variable.
func TestTensorsAreThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		p := passes.Draw(t, n).Program(t, n)
		launches := passes.Launches(t, p, step.Options{Microbatches: n.Microbatches})
		made, over := map[step.ID]bool{}, map[step.ID]bool{}
		for i := range launches {
			l := &launches[i]
			seen := map[step.ID]bool{}
			for k, x := range l.Needs {
				v, id := x.Value, x.ID()
				begins := v.Kind == graph.Variable || v.Kind == graph.Input
				if x.Mode != segment.Write && !begins && !made[id] {
					t.Fatalf("%s reads %s of microbatch %d, which no launch has written", l.Name(), v.Name, x.Microbatch)
				}
				if over[id] || seen[id] {
					t.Fatalf("%s uses %s of microbatch %d, which is over %v, or was listed %v", l.Name(), v.Name, x.Microbatch, over[id], seen[id])
				}
				seen[id] = true
				made[id] = made[id] || x.Mode != segment.Read
				ends := slices.Contains(l.Over, k)
				if ends && (v.Kind == graph.Variable || v.PerMicrobatch) {
					t.Fatalf("%s ends %s, which lasts", l.Name(), v.Name)
				}
				over[id] = ends
			}
		}
		for i := range launches {
			for _, x := range launches[i].Needs {
				if !over[x.ID()] && x.Value.Kind != graph.Variable && !x.Value.PerMicrobatch {
					t.Fatalf("%s of microbatch %d is never over", x.Value.Name, x.Microbatch)
				}
			}
		}
	})
}

// TestEachNodeRunsInEachMicrobatch counts how often a step runs each node, on all devices:
// once for each microbatch, and in the update once. The pass of a node is one of its launch.
func TestEachNodeRunsInEachMicrobatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		p := passes.Draw(t, n).Program(t, n)
		ran := map[int]int{}
		for _, l := range passes.Launches(t, p, step.Options{Microbatches: n.Microbatches}) {
			if l.Reduces() {
				continue
			}
			for _, x := range l.Variant.Graph.Nodes {
				ran[x.ID]++
				if kinds := l.KindsOf(x); len(kinds) != 1 || !slices.Contains(l.Kinds(), kinds[0]) {
					t.Fatalf("%s has passes %c, and %v is of %c", l.Name(), l.Kinds(), x, kinds)
				}
			}
		}
		for _, x := range p.Index.Graph.Nodes {
			want := n.Microbatches
			if x.Phase == graph.Update {
				want = 1
			}
			if ran[x.ID] != want {
				t.Fatalf("%v runs %d times in a step of %d microbatches", x, ran[x.ID], n.Microbatches)
			}
		}
	})
}

// TestLaunchesOnce lists each variant on each device that steps of two sizes run, once.
func TestLaunchesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		p := passes.Draw(t, n).Program(t, n)
		sizes := []int{n.Microbatches, rapid.IntRange(1, n.Microbatches).Draw(t, "last")}
		want := map[step.Run]bool{}
		for _, size := range sizes {
			for _, l := range passes.Launches(t, p, step.Options{Microbatches: size}) {
				want[step.Run{Variant: l.Variant, Device: l.Device}] = true
			}
		}
		once, err := p.LaunchesOnce(sizes)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range once {
			k := step.Run{Variant: l.Variant, Device: l.Device}
			if !want[k] {
				t.Fatalf("%s on device %d is in no step, or listed twice", l.Name(), l.Device)
			}
			delete(want, k)
		}
		if len(want) > 0 {
			t.Fatalf("%d variants of steps are missing", len(want))
		}
	})
}

// TestFetchKeepsOutputs checks that a step frees its outputs unless they are
// fetched.
func TestFetchKeepsOutputs(t *testing.T) {
	p := passes.Setup{}.Program(t, nets.Tied(2))
	for _, fetch := range []bool{false, true} {
		freed := map[string]bool{}
		for _, l := range passes.Launches(t, p, step.Options{Microbatches: 2, Fetch: fetch}) {
			for _, o := range l.Over {
				freed[l.Needs[o].Value.Name] = true
			}
		}
		for _, v := range p.Index.Graph.Outputs {
			if freed[v.Name] == fetch {
				t.Errorf("fetch %v: %s is freed: %v", fetch, v.Name, freed[v.Name])
			}
		}
	}
}

// TestTailEndsTheStep checks whose segments a shorter, smaller last batch runs.
func TestTailEndsTheStep(t *testing.T) {
	full, s := nets.Chain(2, 4, 3, 4), passes.EachBlock(2)
	small := full
	small.Batch = 2
	p, tail := s.Program(t, full), s.Program(t, small)
	ofTail := map[*segment.Segment]bool{}
	for i := range tail.Segments {
		ofTail[&tail.Segments[i]] = true
	}
	for _, l := range passes.Launches(t, p, step.Options{Microbatches: 3, Tail: tail}) {
		want := l.Microbatch == 2 || l.Segment.Pass == schedule.Update
		if l.Tail != want || ofTail[l.Segment] != want {
			t.Errorf("%s: of the tail: %v", l.Name(), l.Tail)
		}
		for _, n := range l.Needs {
			if n.Tail != (want && nodes.PerMicrobatch(n.Value)) {
				t.Errorf("%s uses %s of the tail's size: %v", l.Name(), n.Value.Name, n.Tail)
			}
		}
	}
}

// Listing the launches of many microbatches asks now and then whether to stop.
func TestLaunchesStop(t *testing.T) {
	const microbatches = 4096
	p := passes.Setup{}.Program(t, nets.Chain(2, 4, 2, 2))
	stopped, asks := errors.New("stopped"), 0
	for _, most := range []int{0, 5, 1000} {
		asks = 0
		_, err := p.Launches(stop.When(func() error {
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

// Each instance of a step has a number of its own, counted by first use; so has a step with
// a smaller tail, and one of replicas.
func TestInstancesAreNumbered(t *testing.T) {
	s := passes.Setup{Begins: []int{0, 1}, Replicas: 2, Tree: true, Shard: true, Grain: segment.ByBlock}
	p := s.Program(t, nets.Tied(5))
	for _, o := range []step.Options{{Microbatches: 5}, {Microbatches: 3}, {Microbatches: 5, Tail: s.Program(t, nets.Tied(5))}} {
		numbers := map[step.ID]int{}
		for _, l := range passes.Launches(t, p, o) {
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
