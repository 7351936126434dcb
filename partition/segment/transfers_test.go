package segment_test

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/segment"
)

// transfersOf are the transfers of a net.
func transfersOf(t *testing.T, s passes.Setup, n nets.Net) []segment.Transfer {
	t.Helper()
	idx, pl := s.Place(t, s.Index(t, passes.Build(t, n), n.Microbatches))
	return segment.Transfers(idx, pl, s.Segments(t, idx, pl), s.On())
}

func TestOneStageHasNoTransfers(t *testing.T) {
	if list := transfersOf(t, passes.Setup{}, nets.Tied(3)); len(list) != 0 {
		t.Error(list)
	}
}

// TestTransfers checks the rates, and which values stay on their device.
func TestTransfers(t *testing.T) {
	s := passes.EachBlock(3)
	s.Devices = 2
	rates := map[string]segment.Rate{}
	for _, x := range transfersOf(t, s, nets.Tied(2)) {
		rates[fmt.Sprintf("%s %d-%d", x.Value.Name, x.From, x.To)] = x.Rate
		if x.Local != (x.From < 2 && x.To < 2) {
			t.Errorf("%v is local: %v", x, x.Local)
		}
	}
	if r, ok := rates["b0.weight 0-2"]; !ok || r != segment.PerStep {
		t.Errorf("the tied weight moves once per %v (%v): %v", r, ok, rates)
	}
	if r, ok := rates["b0.tanh 0-1"]; !ok || r != segment.PerMicrobatch {
		t.Errorf("an activation moves once per %v (%v): %v", r, ok, rates)
	}
	n := nets.Tied(2)
	n.Blocks[0].Frozen = true
	frozen := false
	for _, x := range transfersOf(t, passes.EachBlock(3), n) {
		if frozen = frozen || x.Value.Name == "b0.weight"; x.Value.Name == "b0.weight" && x.Rate != segment.PerRun {
			t.Errorf("the frozen weight moves once per %v", x.Rate)
		}
	}
	if !frozen {
		t.Error("the frozen weight does not move")
	}
}

// TestGradientsCrossOnce cuts a residual block from what it reads: the gradients that
// come back are added before they leave.
func TestGradientsCrossOnce(t *testing.T) {
	n := nets.Chain(3, 4, 2, 2)
	n.Blocks[2].Skip = 1
	var back []string
	for _, x := range transfersOf(t, passes.Setup{Begins: []int{0, 2}}, n) {
		if x.To == 0 && x.Rate == segment.PerMicrobatch {
			back = append(back, x.Value.Name)
		}
	}
	if len(back) != 1 {
		t.Errorf("%v comes back", back)
	}
}
