package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
)

// The cause of a stage names the stages on its device.
func TestDevicesAreShared(t *testing.T) {
	p := mustPlan(t, nets.Chain(3, 4, 2, 2), PlanOptions{Devices: nets.Specs(2, 0), Count: 3})
	if !strings.Contains(p.Stages[0].Cause, "shares cpu:0 with stage 1") {
		t.Error(p.Stages[0].Cause)
	}
}

func TestMoreDevicesThanBlocks(t *testing.T) {
	p := mustPlan(t, nets.Chain(2, 4, 2, 1), PlanOptions{Devices: nets.Specs(5, 0)})
	if len(p.Stages) != 2 || !strings.Contains(p.Stages[0].Cause, "5 devices but only 2 blocks") {
		t.Errorf("%d stages: %s", len(p.Stages), p.Stages[0].Cause)
	}
	if want := (Fewer{Asked: 5, Devices: true, Stages: 2, Blocks: 2}); p.Fewer == nil || *p.Fewer != want {
		t.Errorf("fewer stages: %+v, want %+v", p.Fewer, want)
	}
}

// TestFewerStagesThanAskedFor has a plan say it, and one that has enough not.
func TestFewerStagesThanAskedFor(t *testing.T) {
	for _, c := range []struct {
		blocks, count int
		want          string
	}{
		{3, 5, "5 stages asked for but only 3 blocks"},
		{1, 2, "2 stages asked for but only 1 block"},
		{3, 3, "<nil>"},
		{3, 1, "<nil>"},
	} {
		p := mustPlan(t, nets.Chain(c.blocks, 16, 8, 1), PlanOptions{Devices: nets.Specs(1, 0), Count: c.count})
		if got := fmt.Sprint(p.Fewer); got != c.want {
			t.Errorf("%d stages of %d blocks: %s, want %s", c.count, c.blocks, got, c.want)
		}
		f, err := Derive(p, p.Graph, DeriveOptions{For: Checked})
		if err != nil {
			t.Fatal(err)
		}
		if f.Fewer != p.Fewer {
			t.Errorf("the plan of the forward phase says %v, the whole plan %v", f.Fewer, p.Fewer)
		}
	}
}

// TestNoCutWhereValuesGoBack has a block whose layer is used again at the end:
// only blocks outside that loop can be cut off.
func TestNoCutWhereValuesGoBack(t *testing.T) {
	b := graph.NewBuilder("loop", 1)
	x := b.Input("input", shape.F32(2))
	for _, name := range []string{"a", "b", "a", "c"} {
		restore := b.In(&graph.Layer{Name: name, Type: "tanh", Block: name})
		x = ops.Tanh(b, x)
		restore()
	}
	b.Output("y", x)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: nets.Specs(3, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 2 || !slices.Equal(p.Stages[0].Blocks, []string{"a", "b"}) || !strings.Contains(p.Stages[0].Cause, "can only be cut into 2 stages") {
		t.Error(p.Table())
	}
	if _, err = New(g, PlanOptions{Devices: nets.Specs(2, 0), Stages: [][]string{{"a"}, {"b", "c"}}}); !errors.Is(err, ErrStages) {
		t.Error(err)
	}
}

// TestFastDeviceGetsMore cuts by flops per second, not by flops.
func TestFastDeviceGetsMore(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[0].FlopsPerSecond, devices[1].FlopsPerSecond = 1e6, 3e6
	p := mustPlan(t, nets.Chain(8, 8, 4, 16), PlanOptions{Devices: devices, Microbatches: 16})
	for _, st := range p.Stages {
		if want := []int{2, 6}[st.Device]; len(st.Blocks) != want {
			t.Errorf("%d of 8 blocks on device %d, want %d: the second is three times as fast", len(st.Blocks), st.Device, want)
		}
	}
}

func TestNoBlocks(t *testing.T) {
	b := graph.NewBuilder("bare", 1)
	b.Output("y", ops.Tanh(b, b.Input("x", shape.F32(2))))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: nets.Specs(3, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 1 || len(p.Segments) != 1 || !strings.Contains(p.Table(), "no layers to cut at") {
		t.Error(p.Table())
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(1, 0), Stages: [][]string{{"head"}}}); !errors.Is(err, ErrStages) {
		t.Error(err)
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(1, 1)}); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "has no layers") {
		t.Error(err)
	}
}

func TestByHandErrors(t *testing.T) {
	g, err := nets.Chain(3, 4, 2, 1).Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stages [][]string
		want   []string
	}{
		{[][]string{{"b0", "b1", "c2"}}, []string{`"c2"`, `nearest: "b2"`, "b0, b1, b2"}},
		{[][]string{{"b0"}, {"b2"}}, []string{"no stage names b1"}},
		{[][]string{{"b0", "b1"}, {"b1", "b2"}}, []string{`"b1" is in stage 0 and again in stage 1`}},
		{[][]string{{"b0", "b1", "b2"}, {}}, []string{"stage 1 has no blocks"}},
		{[][]string{}, []string{"empty"}},
		{[][]string{{"b1", "b2"}, {"b0"}}, []string{`layer 0 (dense "b0") of stage 1`, `layer 1 (dense "b1") of stage 0`}},
	} {
		_, err := New(g, PlanOptions{Devices: nets.Specs(2, 0), Stages: c.stages})
		if !errors.Is(err, ErrStages) {
			t.Errorf("%v: %v", c.stages, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %v\nlacks %q", c.stages, err, w)
			}
		}
	}
	for _, o := range []PlanOptions{{}, {Devices: nets.Specs(1, 0), Count: -1}, {Devices: nets.Specs(1, 0), Count: 2, Stages: [][]string{{"b0"}}}} {
		if _, err := New(g, o); !errors.Is(err, ErrStages) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

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
		"a stage is on device 7, but there are 2 devices":                                         {Pin: map[string]int{"b0": 7}},
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
