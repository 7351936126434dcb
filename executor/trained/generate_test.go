package trained_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
)

// speaker trains a small model of text, and opens it.
func speaker(t *testing.T, set ...string) (cfg *configs.Config, dir string, m *berth.Trained) {
	t.Helper()
	text := runtest.Tied(t)
	dir = t.TempDir()
	runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir, MaxSteps: 40})
	cfg, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = berth.OpenTrained(t.Context(), cfg, berth.Weights{Dir: dir}, berth.TrainedOptions{Text: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return cfg, dir, m
}

// say generates a text whole.
func say(t *testing.T, generate func(berth.GenerateOptions, func(berth.Piece) error) (berth.Generation, error), o berth.GenerateOptions) (text string, ids []int32, g berth.Generation) {
	t.Helper()
	g, err := generate(o, func(p berth.Piece) error {
		text, ids = text+p.Text, append(ids, p.Tokens...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text, ids, g
}

// unheard takes pieces of a text that nobody reads.
func unheard(berth.Piece) error { return nil }

// Each greedy token is the one that a prediction of the text so far, which has no cache,
// finds likeliest.
func TestGenerateAgreesWithPredict(t *testing.T) {
	cfg, dir, m := speaker(t)
	generate := func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return m.Generate(t.Context(), o, emit)
	}
	text, ids, g := say(t, generate, berth.GenerateOptions{Prompt: "3 b"})
	if g.End != berth.EndContext || g.Tokens != 6 || len(ids) != 6 || len(text) != 6 || g.PromptTokens != 3 || g.Weights.ID == 0 {
		t.Fatalf("%q, %v, %+v", text, ids, g)
	}
	p, err := berth.OpenTrained(t.Context(), cfg, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, id := range ids {
		path := filepath.Join(t.TempDir(), "so-far.txt")
		if err := os.WriteFile(path, []byte("3 b"+text[:i]), 0o644); err != nil {
			t.Fatal(err)
		}
		var last berth.Prediction
		if _, err := p.Predict(t.Context(), path, func(a berth.Prediction) error { last = a; return nil }); err != nil {
			t.Fatal(err)
		}
		if best := last.Values[*last.Class]; last.Values[id] < best-1e-4 {
			t.Errorf("token %d is %d of probability %v, and %d has %v", i, id, last.Values[id], *last.Class, best)
		}
	}
}

// A run and shared devices give the text that the trained model alone gives.
func TestGenerateOnARunAndOnSharedDevices(t *testing.T) {
	cfg, dir, m := speaker(t)
	o := berth.GenerateOptions{Prompt: "7 bot", Tokens: 30, Temperature: 1, TopK: 5, Seed: 9, Slide: true}
	want, _, g := say(t, func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return m.Generate(t.Context(), o, emit)
	}, o)
	if g.End != berth.EndTokens || len(want) != 30 {
		t.Fatalf("%q, %+v", want, g)
	}
	devs, err := berth.OpenDevices(configs.Devices{Use: "cpu:2"}, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := devs.Close(); err != nil {
			t.Error(err)
		}
	}()
	shared, err := berth.OpenTrained(t.Context(), cfg, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: devs, Text: true})
	if err != nil {
		t.Fatal(err)
	}
	run := runtest.Open(t, runtest.Tied(t), "data.path="+cfg.Data.Path, "devices=cpu:3")
	for name, generate := range map[string]func(berth.GenerateOptions, func(berth.Piece) error) (berth.Generation, error){
		"shared": func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
			return shared.Generate(t.Context(), o, emit)
		},
		"run": func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
			return run.Generate(t.Context(), berth.Weights{Dir: dir}, o, emit)
		},
	} {
		if got, _, _ := say(t, generate, o); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
	if err := shared.Close(); err != nil {
		t.Error(err)
	}
}

// A generation ends with its context and with an error of emit, and another can follow.
func TestGenerateEnds(t *testing.T) {
	_, _, m := speaker(t)
	o := berth.GenerateOptions{Prompt: "1", Slide: true}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	g, err := m.Generate(ctx, o, func(p berth.Piece) error {
		if n += len(p.Tokens); n == 20 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, berth.ErrStopped) || !errors.Is(err, context.Canceled) || g.Tokens != 20 || g.End != berth.EndCancelled {
		t.Errorf("cancelled: %+v, %v", g, err)
	}
	full := errors.New("full")
	if g, err = m.Generate(t.Context(), o, func(berth.Piece) error { return full }); !errors.Is(err, full) || g.Tokens != 1 {
		t.Errorf("emit's error: %+v, %v", g, err)
	}
	if _, err := m.Eval(t.Context()); err != nil {
		t.Error(err)
	}
}

// soon is a context that ends after some looks at it.
type soon struct {
	context.Context
	left *int
}

func (c soon) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

func (c soon) Value(any) any { return nil }

// Text that was held back when a generation is cancelled is handed over: all tokens that
// are counted are in the text.
func TestGenerateHandsOverHeldText(t *testing.T) {
	_, _, m := speaker(t)
	o := berth.GenerateOptions{Prompt: "1", Slide: true, Tokens: 20}
	want, _, _ := say(t, func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
		return m.Generate(t.Context(), o, emit)
	}, o)
	o.Stop = []string{want[3:9] + "\x01"} // never comes; its beginning is held back
	most := 0
	for looks := 1; looks < 12; looks++ {
		text, left := "", 1000
		g, err := m.Generate(soon{context.Background(), &left}, o, func(p berth.Piece) error {
			if text == "" {
				left = looks
			}
			text += p.Text
			return nil
		})
		if !errors.Is(err, berth.ErrStopped) || len(text) != g.Tokens || text != want[:len(text)] {
			t.Errorf("%d looks: %q of %q, %+v, %v", looks, text, want, g, err)
		}
		most = max(most, g.Tokens)
	}
	if most < 5 {
		t.Errorf("at most %d tokens: no text was held back", most)
	}
}

func TestGenerateOptions(t *testing.T) {
	_, _, m := speaker(t)
	for _, o := range []berth.GenerateOptions{
		{}, {Prompt: "1", Tokens: -1}, {Prompt: "1", TopK: -1}, {Prompt: "1", TopP: 1.5}, {Prompt: "1", Temperature: -1},
		{Prompt: "1", Stop: []string{""}}, {Prompt: "1", Context: 9}, {Prompt: "1", Context: -1}, {Prompt: "€"}, {Prompt: "123456789"}, {Prompt: "1", Temperature: math.NaN()},
	} {
		if _, err := m.Generate(t.Context(), o, unheard); !berth.IsUsage(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	_, err := m.Generate(t.Context(), berth.GenerateOptions{Prompt: "1", Temperature: math.Inf(1)}, unheard)
	if want := "these options cannot be used: temperature +Inf: give a number from 0 to 3.4e+38; 0 takes the likeliest token"; err == nil || err.Error() != want {
		t.Errorf("an infinite temperature: %v", err)
	}
	r := runtest.Open(t, runtest.Everything)
	if _, err := r.Generate(t.Context(), berth.Weights{Dir: t.TempDir()}, berth.GenerateOptions{Prompt: "1"}, unheard); !berth.IsUsage(err) {
		t.Error(err)
	}
	dir := t.TempDir()
	runtest.Train(t, r, berth.TrainOptions{Dir: dir, MaxSteps: 1})
	_, err = r.Generate(t.Context(), berth.Weights{Dir: dir}, berth.GenerateOptions{Prompt: "1"}, unheard)
	if want := "these options cannot be used: the model was not trained on text (data.source digits): only a model of text can generate"; !errors.Is(err, berth.ErrOptions) || err.Error() != want {
		t.Error(err)
	}
}

// Texts that are generated at once are those that come alone, and each ends where it ends alone.
func TestTextsAtOnce(t *testing.T) {
	_, _, m := speaker(t)
	list := []berth.GenerateOptions{
		{Prompt: "1", Slide: true, Tokens: 30, Temperature: 1, Seed: 2}, {Prompt: "12 1", Tokens: 9},
		{Prompt: "2", Temperature: 0.7, TopP: 0.9, Seed: 7}, {Prompt: "1 2", Slide: true, Tokens: 12, Stop: []string{"2"}, RepetitionPenalty: 1.5},
		{Prompt: "1212", Slide: true, Tokens: 1},
	}
	var want []string
	var ends []berth.Generation
	for _, o := range list {
		text, _, g := say(t, func(o berth.GenerateOptions, emit func(berth.Piece) error) (berth.Generation, error) {
			return m.Generate(t.Context(), o, emit)
		}, o)
		want, ends = append(want, text), append(ends, g)
	}
	got := make([]string, len(list))
	all, err := m.GenerateAll(t.Context(), list, func(text int, p berth.Piece) error { got[text] += p.Text; return nil })
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("together %q, alone %q; %v", got, want, err)
	}
	for i, g := range all {
		if g.End != ends[i].End || g.Tokens != ends[i].Tokens || g.PromptTokens != ends[i].PromptTokens || g.Weights.ID != ends[i].Weights.ID {
			t.Errorf("text %d ended with %+v, alone with %+v", i, g, ends[i])
		}
	}
	full := errors.New("full")
	if _, err := m.GenerateAll(t.Context(), list, func(int, berth.Piece) error { return full }); !errors.Is(err, full) {
		t.Errorf("emit's error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	all, err = m.GenerateAll(ctx, list, func(int, berth.Piece) error {
		if n++; n == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, berth.ErrStopped) || !errors.Is(err, context.Canceled) || len(all) != len(list) {
		t.Errorf("cancelled: %+v, %v", all, err)
	}
	for _, bad := range [][]berth.GenerateOptions{nil, {list[0], {}}, {list[0], {Prompt: "1", Context: 5}}} {
		if _, err := m.GenerateAll(t.Context(), bad, func(int, berth.Piece) error { return nil }); !errors.Is(err, berth.ErrOptions) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
