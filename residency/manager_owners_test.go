package residency

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
)

// A device has one manager at a time, also inside a wrapper. A second one is
// refused whole and can have the device when the first is closed.
func TestOneManagerPerDevice(t *testing.T) {
	devs := []device.Device{newFake(0), newFake(1)}
	first, err := New(devs[1:], ManagerOptions{Name: "the run in a"})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := fault.Wrap(devs, []fault.Fault{{Device: "fake:1", Op: fault.Launch, N: 1, Kind: fault.Fail}})
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]device.Device{"itself": devs, "in a wrapper": wrapped} {
		_, err := New(list, ManagerOptions{})
		if !errors.Is(err, ErrOwned) || !strings.Contains(err.Error(), "fake:1 belongs to the run in a") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := New(wrapped, ManagerOptions{})
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New([]device.Device{devs[0], wrapped[0]}, ManagerOptions{}); !errors.Is(err, ErrOwned) || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a device twice: %v", err)
	}
	for _, d := range devs {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(owners.of) != 0 {
		t.Errorf("%d devices have owners after the end", len(owners.of))
	}
}
