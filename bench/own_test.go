package bench

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/configs"
)

// A config is measured with its own model, batch and loss; two measurements of as many
// steps end with the same weights.
func TestOf(t *testing.T) {
	c, err := configs.Parse("mine.yaml", []byte("data: digits\nmodel: {preset: cnn, channels: [4], hidden: [8]}\ntrain: {batch: 1000, microbatches: 2}\nloss: {name: focal}\noptimizer: {name: sgd, lr: 0.1}\n"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := Of(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if w.Name != "mine" || w.Batch != 1000 || w.Microbatches != 2 || w.Classes != 10 || w.Parameters == 0 || w.Tokens != 0 {
		t.Errorf("%+v", w)
	}
	o := RunOptions{Steps: 3, Microbatches: w.Microbatches}
	one, err := Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	if one.WeightsSHA256 != two.WeightsSHA256 || one.Loss != two.Loss || !(one.Loss > 0) {
		t.Errorf("loss %v and %v, weights %s and %s", one.Loss, two.Loss, one.WeightsSHA256, two.WeightsSHA256)
	}
}

// Samples of several lengths have no one step to measure.
func TestOfLines(t *testing.T) {
	c, err := configs.Load("shakespeare-lines", configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Of(t.Context(), c); !errors.Is(err, ErrOptions) {
		t.Errorf("got %v", err)
	}
}
