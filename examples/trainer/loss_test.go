package main

import (
	"math"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// With the pseudo-Huber loss, the line is found in spite of wrong targets; with the squared one
// it is missed.
func TestPseudoHuber(t *testing.T) {
	for _, c := range []struct {
		loss  string
		least float64 // distance of the line's height at 0 from 1
		most  float64
	}{{"{name: pseudo_huber, delta: 0.1}", 0, 0.1}, {"mse", 2, 15}} {
		cfg, err := configs.Load("../loss/line.yaml", configs.Overlay{Set: []string{"loss=" + c.loss}})
		if err != nil {
			t.Fatal(err)
		}
		run, err := berth.Open(t.Context(), cfg, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		tr, err := run.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for tr.More() {
			if err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		bias, err := tr.Fetch(t.Context(), "line.bias")
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(float64(bias.Float32s()[0]) - 1); off < c.least || off > c.most {
			t.Errorf("loss %s: off by %v", c.loss, off)
		}
	}
}
