package footprint

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
)

// TestActivationsFollowInFlight checks that held activations, and only those,
// are counted per microbatch in flight.
func TestActivationsFollowInFlight(t *testing.T) {
	g, err := nets.Chain(2, 8, 4, 4).Build()
	if err != nil {
		t.Fatal(err)
	}
	idx, err := nodes.New(g, nodes.Options{Microbatches: 4}, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewMeter(segment.NewGroups(idx, place.Nodes(idx, 2, nodes.OneGroupEach(nodes.Blocks(g))))).Measure(0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	memory := f.Memory
	one, two, three := memory(1), memory(2), memory(3)
	for u := range one {
		d := two[u] - one[u]
		if three[u]-two[u] != d || (d > 0) != (device.Usage(u) == device.Activation) {
			t.Errorf("%v: %d, %d, %d", device.Usage(u), one[u], two[u], three[u])
		}
	}
	// Stage 0 keeps the result of tanh, [4,8] of four bytes, and nothing else.
	if d := two[device.Activation] - one[device.Activation]; d != 4*8*4 {
		t.Errorf("a microbatch in flight holds %d bytes", d)
	}
	if w := one[device.Weight]; w != (64+8)*4 {
		t.Errorf("weights take %d bytes", w)
	}
}
