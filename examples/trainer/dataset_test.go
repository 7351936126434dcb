package main

import (
	"testing"

	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/examples/dataset"
)

// Fill has none of the usual mistakes.
func TestSpirals(t *testing.T) {
	set, err := dataset.Open(t.Context(), dataset.Keys{Points: 100, Turns: 1, Noise: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	set.Name, set.Version = "spirals", 1
	if err := custom.Check(set); err != nil {
		t.Error(err)
	}
}
