package bench

import (
	"testing"
	"time"
)

func TestStepMS(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(i+1)*time.Millisecond)
	}
	if got, want := newStepMS(times), (StepMS{Median: 50, P95: 95, Min: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := newStepMS(times[:1]), (StepMS{1, 1, 1}); got != want {
		t.Errorf("%+v of one step, want %+v", got, want)
	}
}
