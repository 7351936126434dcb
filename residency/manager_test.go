package residency

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
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
