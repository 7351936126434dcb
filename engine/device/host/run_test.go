package host

import (
	"strings"
	"testing"
)

func TestPanicBecomesError(t *testing.T) {
	err := launchOnce(t, toy(t, func(in, _ [][]byte) error {
		_ = in[0][99]
		return nil
	}))
	if err == nil || !strings.Contains(err.Error(), "BUG: kernel panicked") || !strings.Contains(err.Error(), "neg") || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("error %v", err)
	}
}
