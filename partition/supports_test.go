package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
)

// onlyRuns are devices that refuse nodes for which refused is true of their index.
func onlyRuns(refused func(d int, n *graph.Node) bool) Supports {
	return func(d int, n *graph.Node) error {
		if refused(d, n) {
			return fmt.Errorf("%w: no kernel", device.ErrUnsupported)
		}
		return nil
	}
}

// refuseBlocks are devices of which the second refuses blocks, by name.
func refuseBlocks(blocks ...string) Supports {
	return onlyRuns(func(d int, n *graph.Node) bool {
		return d == 1 && n.Phase != graph.Update && slices.Contains(blocks, nodes.BlockOf(n.Layer))
	})
}

// Blocks that a device does not run are on the others, in as many stages as that takes,
// and their stage says why.
func TestUnsupportedBlocksAreElsewhere(t *testing.T) {
	for _, c := range []struct {
		refused []string
		on      string // the device of each block
		fewer   string
	}{
		{nil, "[0 0 1 1]", ""},
		{[]string{"b0"}, "[0 0 1 1]", ""},
		{[]string{"b3"}, "[1 1 0 0]", ""},
		{[]string{"b2", "b3"}, "[1 1 0 0]", ""},
		{[]string{"b0", "b3"}, "[0 1 1 0]", ""},
		{[]string{"b0", "b1", "b2", "b3"}, "[0 0 0 0]", "2 devices but not every one has a block that it runs"},
	} {
		devices := nets.Specs(2, 0)
		devices[1].Kind, devices[1].ID = "other", "other:0"
		p := mustPlan(t, nets.Chain(4, 4, 2, 2), PlanOptions{Devices: devices, Supports: refuseBlocks(c.refused...)})
		var on []int
		for _, s := range p.Stages {
			on = append(on, slices.Repeat([]int{s.Device}, len(s.Blocks))...)
			why := slices.ContainsFunc(s.Blocks, func(b string) bool { return slices.Contains(c.refused, b) })
			if says := strings.Contains(s.Cause, "; other:0 does not run b") && strings.Contains(s.Cause, ": no kernel"); says != why {
				t.Errorf("refused %v: stage %v is there because: %s", c.refused, s.Blocks, s.Cause)
			}
		}
		if got := p.Elsewhere(); (len(got) > 0) != (len(c.refused) > 0) {
			t.Errorf("refused %v: the plan says %q", c.refused, got)
		}
		if fmt.Sprint(on) != c.on {
			t.Errorf("refused %v: blocks are on %v, want %s", c.refused, on, c.on)
		}
		if c.fewer != "" && (p.Fewer == nil || p.Fewer.String() != c.fewer) || c.fewer == "" && p.Fewer != nil {
			t.Errorf("refused %v: fewer stages: %v", c.refused, p.Fewer)
		}
	}
}

// A stage by hand, or a pin, on a device that does not run the block is refused by name.
func TestUnsupportedByHand(t *testing.T) {
	devices := nets.Specs(2, 0)
	for _, o := range []PlanOptions{
		{Stages: [][]string{{"b0"}, {"b1"}}},
		{Pin: map[string]int{"b1": 1}},
		{Replicas: 2, Microbatches: 2, Reduction: ReduceTree},
	} {
		o.Devices, o.Supports = devices, refuseBlocks("b1")
		o.Microbatches = max(1, o.Microbatches)
		g, err := nets.Chain(2, 4, 2, o.Microbatches).Build()
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(g, o)
		if !errors.Is(err, ErrStages) || !strings.Contains(fmt.Sprint(err), "b1") || !strings.Contains(fmt.Sprint(err), "no kernel") {
			t.Errorf("stages %v, pins %v, %d replicas: %v", o.Stages, o.Pin, o.Replicas, err)
		}
	}
}

// A number of the update that the device of its readers cannot compute is computed on
// another one, with what it assigns, and that one's stage says why.
func TestUnsupportedUpdatesAreElsewhere(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[1].Kind, devices[1].ID = "other", "other:0"
	n := nets.Chain(2, 4, 2, 1)
	n.Clip = true
	for refusing := range 2 {
		o := PlanOptions{Devices: devices, Stages: [][]string{{"b0"}, {"b1"}}}
		o.Supports = onlyRuns(func(d int, n *graph.Node) bool {
			return d == refusing && n.Phase == graph.Update && nodes.Scalars(n.Out)
		})
		p, count := mustPlan(t, n, o), 0
		for _, x := range p.Graph.Nodes {
			if p.index.Movable(x) && nodes.Scalars(x.Out) {
				count++
				if s := p.place.Node[x.ID]; s == refusing {
					t.Errorf("%v is on stage %d", x, s)
				}
			}
		}
		if got := p.Stages[1-refusing].Cause; count == 0 || len(p.Elsewhere()) == 0 || !strings.Contains(got, fmt.Sprintf("which %s does not run", devices[refusing].ID)) {
			t.Errorf("%d nodes, %q, refused by %s: %s", count, p.Elsewhere(), devices[refusing].ID, got)
		}
	}
}

// Blocks are cut by measured times although a device has none for those that it does not
// run, nor for an update that has a number of them.
func TestUnsupportedBlocksHaveNoTime(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[1].Kind, devices[1].ID = "other", "other:0"
	o := PlanOptions{Devices: devices, Supports: refuseBlocks("b0")}
	o.BlockSeconds = func(d int, block string, pass schedule.Kind) (float64, bool) {
		lacks := d == 1 && (block == "b0" || pass == schedule.Update)
		return 1, !lacks
	}
	p := mustPlan(t, nets.Chain(4, 4, 2, 2), o)
	for _, s := range p.Stages {
		if !strings.Contains(s.Cause, "of the measured time") {
			t.Errorf("stage %v is there because: %s", s.Blocks, s.Cause)
		}
	}
}
