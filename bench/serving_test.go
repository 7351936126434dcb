package bench

import (
	"math"
	"testing"
	"time"
)

// A percentile is a time that was measured: so many of 100 do not exceed it.
func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(i+1)*time.Millisecond)
	}
	for _, x := range []struct {
		n, percent int
		want       float64
	}{{200, 0, 1}, {200, 50, 100}, {200, 99, 198}, {200, 100, 200}, {100, 99, 99}, {101, 99, 100}, {3, 50, 2}, {3, 99, 3}, {1, 99, 1}} {
		if got := percentileMS(times[:x.n], x.percent); got != x.want {
			t.Errorf("percentile %d of 1 to %d: %v, want %v", x.percent, x.n, got, x.want)
		}
	}
}

// The clients count as many requests as the server, which has room for all of them.
func TestServingCounts(t *testing.T) {
	w, err := Lookup("mlp")
	if err != nil {
		t.Fatal(err)
	}
	const clients = 24
	r, err := Serve(t.Context(), w, clients, RunOptions{Seconds: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	batches := int64(0)
	for _, n := range r.Batches {
		batches += n
	}
	if samples := math.Round(r.SamplesPerBatch * float64(batches)); r.Requests < clients || samples != float64(r.Requests) {
		t.Errorf("the clients have %d answers, the server has computed %v samples", r.Requests, samples)
	}
	if l := r.LatencyMS; !(0 < l.Median && l.Median <= l.P99 && l.P99 <= l.Max) || r.RequestsPerS < 1e3/l.Max {
		t.Errorf("%+v, %v requests/s", l, r.RequestsPerS)
	}
}
