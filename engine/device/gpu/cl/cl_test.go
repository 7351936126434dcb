package cl

import (
	"flag"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/internal/testall"
)

// TestMain draws few random cases by default, since each compiles kernels, and always the
// same: some drivers keep what they have compiled.
func TestMain(m *testing.M) {
	testall.Checks(3, 100)
	if !testall.Wanted() {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	m.Run()
}

func TestConformance(t *testing.T) {
	testall.Long(t)
	devicetest.Run(t, func(t *testing.T, o device.OpenOptions) []device.Device {
		t.Helper()
		o.Shared = true
		devs, err := device.Open(Kind, o)
		if err != nil {
			testall.NoOpenCL(t, err)
		}
		return devs
	})
}
