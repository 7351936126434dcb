package partition

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/stop"
)

// TestActivationsFollowInFlight checks that held activations, and only those,
// are counted per microbatch in flight.
func TestActivationsFollowInFlight(t *testing.T) {
	g, err := chain(2, 8, 4, 4).build()
	if err != nil {
		t.Fatal(err)
	}
	idx, err := newIndex(g, indexOptions{microbatches: 4}, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	f, err := newMeter(readyUnits(idx, place(idx, 2, oneGroupEach(findBlocks(g))))).measure(0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	memory := f.memory
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
