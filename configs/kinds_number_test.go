package configs

import (
	"errors"
	"strings"
	"testing"
)

// TestWholeNumbers: a whole number may be written with an exponent or a point.
func TestWholeNumbers(t *testing.T) {
	c := parse(t, small, Overlay{Set: []string{"train.batch=1e2", "train.epochs=3.0", "seed=2e3", "model.hidden=[1e1]", "partition.stages=2e0"}})
	if c.Train.Batch != 100 || c.Train.Epochs != 3 || c.Seed != 2000 || c.Model.Hidden[0] != 10 || c.Partition.Stages.Count != 2 {
		t.Errorf("got %+v, seed %d, %+v, %+v", c.Train, c.Seed, c.Model, c.Partition)
	}
	roundTrip(t, c)
	for _, set := range []string{"train.batch=1.5", "train.batch=1e-2", "train.batch=-1e2", "train.batch=1e30", "train.batch=.inf", "train.batch=.nan",
		"seed=-1e3", "seed=0.5", "seed=1e19"} {
		if c, err := Parse("a.yaml", []byte(small), Overlay{Set: []string{set}}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, %+v", set, err, c)
		}
	}
}

// What is too large is told the bounds in the words that the reference and Go code have; a
// bound that every whole number has is named where it is passed.
func TestWholeNumbersTooLarge(t *testing.T) {
	for set, want := range map[string]string{
		"devices.threads=4097": "expected a whole number from 0 to 4096",
		"train.batch=1e10":     "expected a whole number of at most 2147483647",
	} {
		if _, err := Parse("a.yaml", []byte(small), Overlay{Set: []string{set}}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", set, err, want)
		}
	}
}
