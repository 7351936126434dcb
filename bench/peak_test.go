package bench

import (
	"testing"
	"time"
)

func TestPeak(t *testing.T) {
	p, err := measurePeak(t.Context(), RunOptions{Devices: "cpu", Threads: 1, peakTime: time.Millisecond})
	if err != nil || p.gflops <= 0 || p.side < peakStart || p.side > peakSide {
		t.Errorf("%+v, %v", p, err)
	}
}
