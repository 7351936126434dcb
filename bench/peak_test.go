package bench

import "testing"

func TestPeak(t *testing.T) {
	p, err := measurePeak(t.Context(), RunOptions{Devices: "cpu", Threads: 1})
	if err != nil || p.gflops <= 0 || p.side < peakStart || p.side > peakSide {
		t.Errorf("%+v, %v", p, err)
	}
}
