package bench

import (
	"math"
	"testing"
)

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
