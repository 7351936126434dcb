package partition

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/nets"
)

// TestRecomputeTradesMemoryForTime: each step down in memory takes more
// arithmetic, and the plan says both.
func TestRecomputeTradesMemoryForTime(t *testing.T) {
	g := mustGraph(t, nets.DeepGPT)
	before := g.Text()
	for _, apart := range []bool{false, true} {
		var bytes, again []int64
		for _, r := range []Recompute{"", RecomputeCheap, RecomputeBlock} {
			p := mustCut(t, g, PlanOptions{Devices: nets.Specs(1, 0), Apart: apart, Recompute: r})
			s := p.Stages[0]
			bytes = append(bytes, s.Memory[device.Activation]+s.Memory[device.Scratch])
			again = append(again, s.Recomputed)
		}
		if again[0] != 0 || again[1] == 0 || again[2] < 2*again[1] {
			t.Errorf("apart %v: operations computed again are %v", apart, again)
		}
		if 5*bytes[1] > 4*bytes[0] || 3*bytes[2] > 2*bytes[1] {
			t.Errorf("apart %v: none, cheap, block take %v bytes", apart, bytes)
		}
	}
	if g.Text() != before {
		t.Error("the graph that was given has changed")
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(1, 0), Recompute: "some"}); !errors.Is(err, ErrGraph) {
		t.Errorf("got %v", err)
	}
}
