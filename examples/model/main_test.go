package main

import (
	"testing"

	"github.com/berth-ml/berth"
)

// The program learns the wave, and goes on where it was stopped.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	if _, err := train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 150}); err != nil {
		t.Fatal(err)
	}
	report, err := train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	if off := report.Final.Metrics["mae"]; !(off < 0.1) {
		t.Errorf("answers are off by %v", off)
	}
}
