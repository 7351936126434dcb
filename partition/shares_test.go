package partition

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
)

// A plan with other shares has the same segments, launched on other replicas, and the memory of its own steps.
func TestShare(t *testing.T) {
	o := PlanOptions{Devices: nets.Specs(4, 0), Replicas: 2, Reduction: ReduceTree, LastMicrobatches: 3}
	p := mustPlan(t, nets.Chain(3, 4, 2, 8), o)
	if s, err := p.Shares(); err != nil || !slices.Equal(s, []int{4, 4}) || !p.Shareable() {
		t.Fatalf("%v, %v", s, err)
	}
	q, err := p.Share([]int{7, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ microbatches, first int }{{8, 7}, {3, 3}} {
		n := map[int]int{}
		for _, l := range mustLaunches(t, q, StepOptions{Microbatches: c.microbatches}) {
			if a := l.Action(); a.Kind == schedule.Forward && a.Stage == 0 && l.Variant == &p.Segments[0].First || l.Variant == &p.Segments[0].Later {
				n[q.ReplicaOf(l.Device)]++
			}
		}
		if n[0] != c.first || n[0]+n[1] != c.microbatches {
			t.Errorf("of %d microbatches, replicas launch %v", c.microbatches, n)
		}
	}
	if len(q.Memory) != len(p.Memory) || q.Memory[0].Peak <= p.Memory[0].Peak {
		t.Errorf("with more microbatches, the first device takes %d bytes, not more than %d", q.Memory[0].Peak, p.Memory[0].Peak)
	}
	back, err := q.Share([]int{4, 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range back.Memory {
		if f := back.Memory[i]; f.Floor != p.Memory[i].Floor || f.Peak < p.Memory[i].Peak {
			t.Errorf("with the first shares again: %+v, but it was %+v", f, p.Memory[i])
		}
	}
	for _, shares := range [][]int{{8, 0}, {4, 3}, {8}, {4, 5}, nil} {
		if _, err := p.Share(shares); !errors.Is(err, ErrReplicas) && !errors.Is(err, schedule.ErrInvalid) {
			t.Errorf("shares %v: %v", shares, err)
		}
	}
}

// Microbatches stay where they would have other bits, where ranks or a schedule's file give them their place, and where
// each replica has one.
func TestNotShareable(t *testing.T) {
	net := nets.Chain(3, 4, 2, 2)
	o := PlanOptions{Devices: nets.Specs(2, 0), Replicas: 2, Reduction: ReduceTree}
	for name, change := range map[string]func(o *PlanOptions, microbatches *int){
		"one replica":   func(o *PlanOptions, _ *int) { o.Replicas = 1 },
		"one of each":   func(_ *PlanOptions, microbatches *int) { *microbatches = 2 },
		"ranks":         func(o *PlanOptions, _ *int) { o.Ranks = []int{0, 1} },
		"other kind":    func(o *PlanOptions, _ *int) { o.Devices[1].Kind = "opencl" },
		"other kernels": func(o *PlanOptions, _ *int) { o.Devices[1].Numerics = "avx2" },
		"nothing":       nil,
	} {
		x, n := o, net
		x.Devices, n.Microbatches = slices.Clone(o.Devices), 4
		if change != nil {
			change(&x, &n.Microbatches)
		}
		p := mustPlan(t, nets.Chain(3, 4, 2, n.Microbatches), x)
		if p.Shareable() != (change == nil) {
			t.Errorf("%s: microbatches can move: %v", name, p.Shareable())
		}
	}
}
