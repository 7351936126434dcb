package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/blas"
)

// TestLibrary takes OpenBLAS where it is installed and says what is missing
// where it is not.
func TestLibrary(t *testing.T) {
	t.Setenv(LibraryVariable, "openblas")
	devs, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if _, missing := blas.Open(); missing != nil {
		if !errors.Is(err, blas.ErrNotFound) || !strings.Contains(err.Error(), "BERTH_BLAS") {
			t.Errorf("got %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := devs[0].Spec().Description; !strings.Contains(d, "products by libopenblas") {
		t.Errorf("the device is %q", d)
	}
	if err := devs[0].Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownLibrary(t *testing.T) {
	t.Setenv(LibraryVariable, "mkl")
	if _, err := Open(device.OpenOptions{Count: 1}); err == nil || !strings.Contains(err.Error(), `BERTH_BLAS: there is no library "mkl": take openblas`) {
		t.Errorf("got %v", err)
	}
}
