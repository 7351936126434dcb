package partition

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/partition/nets"
)

func TestOneStageHasNoTransfers(t *testing.T) {
	p := mustPlan(t, nets.Tied(3), PlanOptions{Devices: nets.Specs(1, 0)})
	if len(p.Transfers) != 0 || len(p.Segments) != 3 || p.Stages[0].BytesIn != 0 {
		t.Errorf("transfers %v, %d segments", p.Transfers, len(p.Segments))
	}
}

// TestTransfers checks the rates, and that the totals of the stages agree with
// the list.
func TestTransfers(t *testing.T) {
	p := mustPlan(t, nets.Tied(2), PlanOptions{Devices: nets.Specs(2, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	rates := map[string]Rate{}
	var in, out, listed int64
	for _, tr := range p.Transfers {
		rates[fmt.Sprintf("%s %d-%d", tr.Value.Name, tr.From, tr.To)] = tr.Rate
		if tr.Local != (tr.From < 2 && tr.To < 2) {
			t.Errorf("%v is local: %v", tr, tr.Local)
		}
		if tr.Rate == PerMicrobatch {
			listed += tr.Bytes
		}
	}
	for _, s := range p.Stages {
		in, out = in+s.BytesIn, out+s.BytesOut
	}
	if in != listed || out != listed || listed == 0 {
		t.Errorf("in %d, out %d, listed %d", in, out, listed)
	}
	if r, ok := rates["b0.weight 0-2"]; !ok || r != PerStep {
		t.Errorf("the tied weight moves once per %v (%v): %v", r, ok, rates)
	}
	s := nets.Tied(2)
	s.Blocks[0].Frozen = true
	p = mustPlan(t, s, PlanOptions{Devices: nets.Specs(3, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	for _, tr := range p.Transfers {
		if tr.Value.Name == "b0.weight" && tr.Rate != PerRun {
			t.Errorf("the frozen weight moves once per %v", tr.Rate)
		}
	}
}

// TestGradientsCrossOnce cuts a residual block from what it reads: the gradients that
// come back are added before they leave.
func TestGradientsCrossOnce(t *testing.T) {
	s := nets.Chain(3, 4, 2, 2)
	s.Blocks[2].Skip = 1
	p := mustPlan(t, s, PlanOptions{Devices: nets.Specs(2, 0), Stages: [][]string{{"b0", "b1"}, {"b2"}}})
	var back []string
	for _, x := range p.Transfers {
		if x.To == 0 && x.Rate == PerMicrobatch {
			back = append(back, x.Value.Name)
		}
	}
	if len(back) != 1 || p.Stages[0].BytesIn != p.Stages[0].BytesOut {
		t.Errorf("%v comes back: %d bytes for %d", back, p.Stages[0].BytesIn, p.Stages[0].BytesOut)
	}
}
