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
	"github.com/berth-ml/berth/partition/nets"
)

func TestDevicesAreShared(t *testing.T) {
	for _, c := range []struct {
		stages, devices int
		want            []int
	}{{3, 2, []int{0, 0, 1}}, {4, 2, []int{0, 0, 1, 1}}, {3, 3, []int{0, 1, 2}}, {2, 4, []int{0, 1}}, {5, 3, []int{0, 0, 1, 1, 2}}} {
		if got := (&PlanOptions{Devices: nets.Specs(c.devices, 0)}).pipeline().Deal(c.stages); !slices.Equal(got, c.want) {
			t.Errorf("%d stages on %d devices: %v, want %v", c.stages, c.devices, got, c.want)
		}
	}
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
