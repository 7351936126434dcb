package cpu

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/devicetest"
)

func TestConformance(t *testing.T) {
	for l := isa.Generic; l <= isa.Best(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			t.Setenv(ISAVariable, l.String())
			testConformance(t)
		})
	}
}

func testConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T, o device.OpenOptions) []device.Device {
		t.Helper()
		devs, err := device.Open(Kind, o)
		if err != nil {
			t.Fatal(err)
		}
		return devs
	})
}

func TestOpenChoosesTheISA(t *testing.T) {
	t.Setenv(ISAVariable, "generic")
	devs, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if d := devs[0].Spec().Description; !strings.Contains(d, "generic") {
		t.Errorf("%q", d)
	}
	if err := devs[0].Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(ISAVariable, "fast")
	if _, err := Open(device.OpenOptions{Count: 1}); err == nil || !strings.Contains(err.Error(), `BERTH_CPU: there is no ISA level "fast": take`) {
		t.Errorf("got %v", err)
	}
}
