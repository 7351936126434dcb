package null

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
)

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T, o device.OpenOptions) []device.Device {
		t.Helper()
		devs, err := device.Open(Kind, o)
		if err != nil {
			t.Fatal(err)
		}
		return devs
	})
}
