package partition

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/partition/nets"
)

// deviceOfBlock is the device of the stage that has a block.
func deviceOfBlock(p *Plan, block string) int {
	for _, s := range p.Stages {
		for _, b := range s.Blocks {
			if b == block {
				return s.Device
			}
		}
	}
	return -1
}

// Pinned blocks are where they are pinned, however the stages are found.
func TestPinnedBlocks(t *testing.T) {
	for name, o := range map[string]PlanOptions{
		"the last on the first":  {Pin: map[string]int{"b5": 0}},
		"both ends on one":       {Pin: map[string]int{"b0": 1, "b5": 1}},
		"all on one":             {Pin: map[string]int{"b0": 1, "b2": 1, "b3": 1, "b5": 1}},
		"three stages":           {Pin: map[string]int{"b0": 1, "b5": 1}, Count: 3},
		"stages that are listed": {Pin: map[string]int{"b4": 0}, Stages: [][]string{{"b0", "b1"}, {"b2", "b3", "b4", "b5"}}},
	} {
		o.Devices, o.Microbatches = nets.Specs(2, 0), 2
		p := mustPlan(t, nets.Chain(6, 8, 4, 2), o)
		for b, d := range o.Pin {
			if got := deviceOfBlock(p, b); got != d {
				t.Errorf("%s: %s is on device %d, want %d\n%s", name, b, got, d, p.Table())
			}
		}
		if !strings.Contains(p.Table(), "pinned here") {
			t.Errorf("%s: no cause says so\n%s", name, p.Table())
		}
	}
}

func TestPinsThatCannotBe(t *testing.T) {
	for want, o := range map[string]PlanOptions{
		`block "b9" is pinned to cpu:0`:                                                           {Pin: map[string]int{"b9": 0}},
		"device 7 of 2":                                                                           {Pin: map[string]int{"b0": 7}},
		"cannot be cut so that each pinned block":                                                 {Pin: map[string]int{"b0": 0, "b1": 1, "b2": 0}, Count: 2},
		`stage 0 has block "b0", which is pinned to cpu:0, and "b1"`:                              {Pin: map[string]int{"b0": 0, "b1": 1}, Stages: [][]string{{"b0", "b1"}, {"b2"}}},
		`block "b0" is pinned to cpu:1, and the first of 2 replicas has cpu:0`:                    {Pin: map[string]int{"b0": 1}, Replicas: 2, Microbatches: 2, Reduction: ReduceTree},
		`block "b1" is pinned to cpu:1, and the first of 2 replicas has cpu:0; name one of those`: {Pin: map[string]int{"b1": 1}, Stages: [][]string{{"b0", "b1", "b2"}}, Replicas: 2, Microbatches: 2, Reduction: ReduceTree},
		`stage 1 is on cpu:1, and the first`:                                                      {On: []int{0, 1}, Stages: [][]string{{"b0", "b1"}, {"b2"}}, Replicas: 2, Microbatches: 2, Reduction: ReduceTree},
	} {
		o.Devices = nets.Specs(2, 0)
		g, err := nets.Chain(3, 4, 2, 1).Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(g, o); !errors.Is(err, ErrStages) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
