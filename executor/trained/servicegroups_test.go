package trained_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/runtest"
)

// onDevices trains a few steps of a model of text on one device, and serves it on two of its own, with faults.
func onDevices(t *testing.T, o berth.ServeOptions, faults ...string) (two, one *berth.Service, info *datasets.Info) {
	t.Helper()
	text := runtest.Tied(t)
	one, _, dir := serve(t, runtest.Parsed(t, text), nil, o)
	var list []fault.Fault
	for _, f := range faults {
		x, err := fault.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	c := runtest.Parsed(t, text, "devices=cpu:2")
	m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Faults: list})
	if err != nil {
		t.Fatal(err)
	}
	if two, err = m.Serve(t.Context(), o); err != nil {
		t.Fatal(errors.Join(err, m.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(two.Close(), m.Close()); err != nil && two.Err() == nil {
			t.Error(err)
		}
	})
	return two, one, m.Info()
}

// Two devices answer at the same time with the bits of one. Each has the weights once, however much it computes.
func TestServiceOnSeveralDevices(t *testing.T) {
	two, one, info := onDevices(t, berth.ServeOptions{Batch: 1, Texts: 1}, "cpu:0 launch 1 slow", "cpu:1 launch 1 slow")
	samples := randomSamples(rand.New(rand.NewPCG(1, 2)), info, 40)
	want, err := one.Predict(t.Context(), samples)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := two.Predict(t.Context(), samples); err != nil || !slices.Equal(got.Float32s(), want.Float32s()) {
			t.Fatalf("two devices give other answers; %v", err)
		}
	}
	st := two.Stats()
	if len(st.Groups) != 2 || st.Programs != one.Stats().Programs {
		t.Fatalf("%+v", st)
	}
	if a, b := st.Groups[0].Samples, st.Groups[1].Samples; a == 0 || b == 0 || a+b != 80 {
		t.Errorf("%+v", st)
	}
	for _, g := range st.Groups {
		if g.WeightBytes != one.Stats().WeightBytes || g.Lost != nil {
			t.Errorf("%+v, and one device has %d bytes of weights", g, one.Stats().WeightBytes)
		}
	}
	generate := func(s *berth.Service, emit func(berth.Piece) error) string {
		text := ""
		o := berth.GenerateOptions{Prompt: "7 b", Tokens: 8, Temperature: 1, Seed: 5, Slide: true}
		_, err := s.Generate(t.Context(), o, func(p berth.Piece) error {
			text += p.Text
			return emit(p)
		})
		if err != nil {
			t.Error(err)
		}
		return text
	}
	alone := generate(one, func(berth.Piece) error { return nil })
	var both, texts sync.WaitGroup // no text goes on before the other one has a token, and a device generates one at a time
	both.Add(2)
	for range 2 {
		texts.Go(func() {
			var begun sync.Once
			got := generate(two, func(berth.Piece) error {
				begun.Do(func() { both.Done(); both.Wait() })
				return nil
			})
			if got != alone {
				t.Errorf("%q, and on one device %q", got, alone)
			}
		})
	}
	texts.Wait()
	if g := two.Stats().Groups; g[0].Tokens != 8 || g[1].Tokens != 8 {
		t.Errorf("%+v", g)
	}
}

// After the loss of a device, the other one computes its samples and begins its text again, with the same bits. Once that
// one is lost too, so is the service.
func TestServiceGoesOnWithoutALostDevice(t *testing.T) {
	two, one, info := onDevices(t, berth.ServeOptions{Batch: 2}, "cpu:0 launch 1 lost", "cpu:1 launch 60 lost")
	samples := randomSamples(rand.New(rand.NewPCG(3, 4)), info, 8)
	want, err := one.Predict(t.Context(), samples)
	if err != nil {
		t.Fatal(err)
	}
	options := berth.GenerateOptions{Prompt: "7 b", Tokens: 5, Temperature: 1, Seed: 5, Slide: true}
	alone, _, _ := say(t, func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return one.Generate(t.Context(), o, emit)
	}, options)
	text, _, _ := say(t, func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return two.Generate(t.Context(), o, emit)
	}, options) // the first text goes to the first device
	if text != alone {
		t.Errorf("%q, and on one device %q", text, alone)
	}
	if got, err := two.Predict(t.Context(), samples); err != nil || !slices.Equal(got.Float32s(), want.Float32s()) {
		t.Errorf("other answers; %v", err)
	}
	g := two.Stats().Groups
	if g[0].Lost == nil || g[0].Samples != 0 || g[0].Tokens != 0 || g[1].Lost != nil || g[1].Samples != 8 || two.Err() != nil {
		t.Errorf("%+v, %v", g, two.Err())
	}
	if told := strings.Join(two.Warnings(), "\n"); !strings.Contains(told, "; going on without cpu:0, on cpu:1") {
		t.Errorf("it tells %q", told)
	}
	for began := time.Now(); err == nil && time.Since(began) < time.Minute; {
		_, err = two.Predict(t.Context(), samples)
	}
	if err == nil || two.Err() == nil {
		t.Errorf("both are lost: %v, %v", err, two.Err())
	}
}
