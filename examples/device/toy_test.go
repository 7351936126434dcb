package device

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
)

// The kind keeps the contract of package device.
func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T, o device.OpenOptions) []device.Device {
		t.Helper()
		cards, err := device.Open(kind, o)
		if err != nil {
			t.Fatal(err)
		}
		return cards
	})
}
