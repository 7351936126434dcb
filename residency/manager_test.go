package residency

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/shape"
)

func TestNewFails(t *testing.T) {
	d := newFake(0)
	boom := errors.New("boom")
	d.failNow["stream"] = boom
	if _, err := New([]device.Device{d}, ManagerOptions{}); !errors.Is(err, boom) {
		t.Errorf("no stream: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New(nil, ManagerOptions{}); err == nil {
		t.Error("no devices were accepted")
	}
}

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

func TestCloseReportsLeases(t *testing.T) {
	d := newFake(0)
	m, err := Open([]device.Device{d}, ManagerOptions{}, TenantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream("compute")
	w, err := m.Declare(Key{Value: "w"}, shape.F32(2), device.Weight)
	if err != nil {
		t.Fatal(err)
	}
	var l Lease
	if err := m.Acquire(short(t), s, []Need{{w, 0, Write}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); !errors.Is(err, ErrLeased) || !strings.Contains(err.Error(), "w on fake:0") {
		t.Errorf("close: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if err := m.Acquire(short(t), s, nil, 0, new(Lease)); !errors.Is(err, ErrClosed) {
		t.Errorf("acquire after close: %v", err)
	}
	if err := m.Fill(w, make([]byte, 8)); !errors.Is(err, ErrClosed) {
		t.Errorf("fill after close: %v", err)
	}
	if err := errors.Join(s.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
