package cut

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// choose cuts a graph for steps of so many microbatches, on the devices of o.
func choose(t *testing.T, g *graph.Graph, microbatches int, o Options) (*nodes.Index, Cut, error) {
	t.Helper()
	o.Speeds.Devices = o.Devices
	o.Pipeline.Devices, o.Pipeline.Microbatches = len(o.Devices), microbatches
	idx, err := nodes.New(g, nodes.Options{Microbatches: microbatches, Splits: o.Pipeline.Splits()}, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Choose(idx, nodes.Blocks(g), o)
	return idx, c, err
}

// mustChoose cuts a net.
func mustChoose(t *testing.T, n nets.Net, o Options) Cut {
	t.Helper()
	g, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, c, err := choose(t, g, n.Microbatches, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The cause of a stage names the stages on its device.
func TestDevicesAreShared(t *testing.T) {
	c := mustChoose(t, nets.Chain(3, 4, 2, 2), Options{Devices: nets.Specs(2, 0), Count: 3})
	if !strings.Contains(c.Cause[0], "shares cpu:0 with stage 1") {
		t.Error(c.Cause[0])
	}
}

func TestMoreDevicesThanBlocks(t *testing.T) {
	c := mustChoose(t, nets.Chain(2, 4, 2, 1), Options{Devices: nets.Specs(5, 0)})
	if len(c.Device) != 2 || !strings.Contains(c.Cause[0], "5 devices but only 2 blocks") {
		t.Errorf("%d stages: %s", len(c.Device), c.Cause[0])
	}
	if want := (Fewer{Asked: 5, Devices: true, Stages: 2, Blocks: 2}); c.Fewer == nil || *c.Fewer != want {
		t.Errorf("fewer stages: %+v, want %+v", c.Fewer, want)
	}
}

// TestFewerStagesThanAskedFor has a cut say it, and one that has enough not.
func TestFewerStagesThanAskedFor(t *testing.T) {
	for _, x := range []struct {
		blocks, count int
		want          string
	}{
		{3, 5, "5 stages asked for but only 3 blocks"},
		{1, 2, "2 stages asked for but only 1 block"},
		{3, 3, "<nil>"},
		{3, 1, "<nil>"},
	} {
		c := mustChoose(t, nets.Chain(x.blocks, 16, 8, 1), Options{Devices: nets.Specs(1, 0), Count: x.count})
		if got := fmt.Sprint(c.Fewer); got != x.want {
			t.Errorf("%d stages of %d blocks: %s, want %s", x.count, x.blocks, got, x.want)
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
	_, c, err := choose(t, g, 1, Options{Devices: nets.Specs(3, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.StageOf, []int{0, 0, 1}) || !strings.Contains(c.Cause[0], "can only be cut into 2 stages") {
		t.Error(c)
	}
	idx, c, err := choose(t, g, 1, Options{Devices: nets.Specs(2, 0), Stages: [][]string{{"a"}, {"b", "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckEdges(idx, place.Nodes(idx, 2, c.Groups())); err == nil || !strings.Contains(err.Error(), "put both in one stage") {
		t.Error(err)
	}
}

// TestFastDeviceGetsMore cuts by flops per second, not by flops.
func TestFastDeviceGetsMore(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[0].FlopsPerSecond, devices[1].FlopsPerSecond = 1e6, 3e6
	c := mustChoose(t, nets.Chain(8, 8, 4, 16), Options{Devices: devices})
	blocks := map[int]int{} // by device
	for _, s := range c.StageOf {
		blocks[c.Device[s]]++
	}
	if blocks[0] != 2 || blocks[1] != 6 {
		t.Errorf("%v of 8 blocks on each device, want 2 and 6: the second is three times as fast", blocks)
	}
}

// onlyRuns are devices that refuse nodes for which refused is true of their index.
func onlyRuns(refused func(d int, n *graph.Node) bool) place.Supports {
	return func(d int, n *graph.Node) error {
		if refused(d, n) {
			return fmt.Errorf("%w: no kernel", device.ErrUnsupported)
		}
		return nil
	}
}

// refuseBlocks are devices of which the second refuses blocks, by name.
func refuseBlocks(blocks ...string) place.Supports {
	return onlyRuns(func(d int, n *graph.Node) bool {
		return d == 1 && n.Phase != graph.Update && slices.Contains(blocks, nodes.BlockOf(n.Layer))
	})
}

// Blocks that a device does not run are on the others, in as many stages as that takes,
// and their stage says why.
func TestUnsupportedBlocksAreElsewhere(t *testing.T) {
	for _, x := range []struct {
		refused []string
		on      string // the device of each block
		fewer   string
	}{
		{nil, "[0 0 1 1]", "<nil>"},
		{[]string{"b0"}, "[0 0 1 1]", "<nil>"},
		{[]string{"b3"}, "[1 1 0 0]", "<nil>"},
		{[]string{"b2", "b3"}, "[1 1 0 0]", "<nil>"},
		{[]string{"b0", "b3"}, "[0 1 1 0]", "<nil>"},
		{[]string{"b0", "b1", "b2", "b3"}, "[0 0 0 0]", "2 devices but not every one has a block that it runs"},
	} {
		devices := nets.Specs(2, 0)
		devices[1].Kind, devices[1].ID = "other", "other:0"
		c := mustChoose(t, nets.Chain(4, 4, 2, 2), Options{Devices: devices, Supports: refuseBlocks(x.refused...)})
		var on []int
		why := make([]bool, len(c.Device)) // a block of the stage is refused elsewhere
		for i, s := range c.StageOf {
			on = append(on, c.Device[s])
			why[s] = why[s] || slices.Contains(x.refused, c.Blocks[i])
		}
		for s, cause := range c.Cause {
			if says := strings.Contains(cause, "; other:0 does not run b") && strings.Contains(cause, ": no kernel"); says != why[s] {
				t.Errorf("refused %v: stage %d is there because: %s", x.refused, s, cause)
			}
		}
		if (len(c.Refused) > 0) != (len(x.refused) > 0) {
			t.Errorf("refused %v: the cut says %q", x.refused, c.Refused)
		}
		if got := fmt.Sprint(c.Fewer); fmt.Sprint(on) != x.on || got != x.fewer {
			t.Errorf("refused %v: blocks are on %v, want %s; fewer stages: %s", x.refused, on, x.on, got)
		}
	}
}

// Blocks are cut by measured times although a device has none for those that it does not
// run, nor for an update that has a number of them.
func TestUnsupportedBlocksHaveNoTime(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[1].Kind, devices[1].ID = "other", "other:0"
	o := Options{Devices: devices, Supports: refuseBlocks("b0")}
	o.Blocks = func(d int, block string, pass schedule.Kind) (float64, bool) {
		lacks := d == 1 && (block == "b0" || pass == schedule.Update)
		return 1, !lacks
	}
	for s, cause := range mustChoose(t, nets.Chain(4, 4, 2, 2), o).Cause {
		if !strings.Contains(cause, "of the measured time") {
			t.Errorf("stage %d is there because: %s", s, cause)
		}
	}
}
