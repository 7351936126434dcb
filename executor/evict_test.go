package executor_test

import (
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	drill "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/residency"
)

// stubborn is a device that gives up what was used last.
type stubborn struct {
	device.Device
	mu     sync.Mutex
	chosen int
}

func (d *stubborn) Victim(c []device.Candidate) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chosen++
	best := 0
	for i := range c {
		if c[i].LastUse > c[best].LastUse {
			best = i
		}
	}
	return best
}

// A device's own policy decides what leaves it, also while faults are made. The weights
// are the same.
func TestDevicesOfTheirOwnPolicy(t *testing.T) {
	j := gptJob(3)
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		faults []drill.Fault
	}{
		{"own", nil},
		{"own, with faults", []drill.Fault{{Device: "cpu:1", Op: drill.Launch, N: 1 << 30, Kind: drill.Fail}}},
	} {
		devs, err := openSized(least(t, j, 2, 1, "1f1b"), 1)
		if err != nil {
			t.Fatal(err)
		}
		own := make([]*stubborn, len(devs))
		for i, d := range devs {
			own[i] = &stubborn{Device: d}
			devs[i] = own[i]
		}
		if devs, err = drill.Wrap(devs, c.faults); err != nil {
			t.Fatal(err)
		}
		got, err := trained(j, devs, "1f1b", residency.ManagerOptions{})
		if err != nil {
			t.Fatal(c.name, err)
		}
		if d := differ(want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		for _, d := range own {
			if d.chosen == 0 {
				t.Errorf("%s: %s was not asked", c.name, d.ID())
			}
		}
	}
}
