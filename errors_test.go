package berth_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
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
