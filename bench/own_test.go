package bench

import (
	"errors"
	"fmt"
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
	ws, err := Of(t.Context(), c)
	if err != nil || len(ws) != 1 {
		t.Fatalf("%d workloads, %v", len(ws), err)
	}
	w := ws[0]
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

// Samples of several lengths have a step to measure for each bucket. Those of a longer one have more
// tokens and take more arithmetic.
func TestOfLines(t *testing.T) {
	c, err := configs.Load("shakespeare-lines", configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := Of(t.Context(), c)
	if err != nil || len(ws) < 2 {
		t.Fatalf("%d workloads, %v", len(ws), err)
	}
	tokens, flops := 0, 0.0
	for _, w := range ws {
		if w.Tokens <= tokens || w.Tokens > w.own.positions || w.Name != fmt.Sprintf("%s:%d", c.Name, w.own.positions) {
			t.Errorf("%s: %d tokens of %d, after %d", w.Name, w.Tokens, w.own.positions, tokens)
		}
		tokens = w.Tokens
		if w.own.positions > 64 {
			continue // the longer ones take long
		}
		r, err := Run(t.Context(), w, RunOptions{Steps: 2})
		if err != nil {
			t.Fatal(err)
		}
		if of := r.Gflops * r.StepMS.Median; r.Loss < 2 || r.Loss > 6 || of <= flops {
			t.Errorf("%s: loss %g, %g Mflop a step after %g", w.Name, r.Loss, of, flops)
		} else {
			flops = of
		}
	}
	if _, err := Generate(t.Context(), ws[0], RunOptions{Steps: 1}); !errors.Is(err, ErrOptions) {
		t.Errorf("generation: %v", err)
	}
}
