package berth_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
)

func TestConfigsChangedInCodeAreChecked(t *testing.T) {
	c, err := configs.Load("digits", configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	c.Train.Batch = -4
	for _, x := range []struct {
		c    *configs.Config
		want string
	}{
		{c, "train.batch: got -4, expected a whole number of at least 1"},
		{&configs.Config{}, "data.source: has no value, expected one of digits"},
	} {
		_, err := berth.Open(t.Context(), x.c)
		if !errors.Is(err, configs.ErrInvalid) || !berth.IsUsage(err) || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("got %v, want %q", err, x.want)
		}
	}
}

// What is not there is a mistake of the call, as the command has it.
func TestMissingThingsAreUsage(t *testing.T) {
	_, err := configs.Load("nofile.yaml", configs.Overlay{})
	_, missing := open(t, everything).Eval(t.Context(), berth.Weights{Dir: filepath.Join(t.TempDir(), "zzz")})
	for _, err := range []error{err, missing} {
		if err == nil || !berth.IsUsage(err) {
			t.Errorf("%v is not told from a failure", err)
		}
	}
	if damaged := fmt.Errorf("%w: %w", checkpoint.ErrDamaged, checkpoint.ErrNotFound); berth.IsUsage(damaged) {
		t.Errorf("%v is told to be a mistake", damaged)
	}
}

// A model with room for more classes than the data has answers for all of them.
func TestPredictGivesEveryProbability(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8], outputs: 13}\ntrain: {batch: 32}\n"
	dir := t.TempDir()
	r := open(t, text)
	train(t, r, berth.TrainOptions{Dir: dir, MaxSteps: 1})
	_, err := r.Predict(t.Context(), berth.Weights{Dir: dir}, "", func(p berth.Prediction) error {
		var sum float32
		for _, v := range p.Values {
			sum += v
		}
		if len(p.Values) != 13 || sum < 0.999 || sum > 1.001 {
			return fmt.Errorf("%d values with sum %v", len(p.Values), sum)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	r := open(t, everything)
	for _, o := range []berth.TrainOptions{
		{},
		{Dir: "x", MaxSteps: -3},
		{Dir: "x", MaxTime: -1},
		{Dir: "x", Resume: true, Fresh: true},
		{Dir: "x", Resume: true, Init: "w"},
	} {
		if _, err := r.Train(t.Context(), o); !errors.Is(err, berth.ErrOptions) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}

func TestStoppedByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := open(t, everything)
	o := &berth.Observer{Step: func(berth.Step) { cancel() }}
	rep, err := r.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), Observer: o})
	if !errors.Is(err, berth.ErrStopped) || !errors.Is(err, context.Canceled) || rep == nil {
		t.Errorf("got %v", err)
	}
}
