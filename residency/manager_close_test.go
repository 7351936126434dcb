package residency

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

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
