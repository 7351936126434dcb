package infer_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency/ledger"
)

// speaker is a GPT of two blocks with a context of 24 and a vocabulary of 19.
func speaker() models.Spec {
	return models.Spec{Input: shape.I32(24), Target: shape.I32(24), Loss: "cross_entropy", Tokens: 19, Classes: 19,
		Layers: models.GPT(models.GPTOptions{Vocab: 19, Context: 24, Layers: 2, Heads: 2, Width: 16}, graph.Pos{})}
}

// strong gives variables larger first contents than models.Fill does, so that the
// likeliest token depends on the text.
func strong(v *graph.Value, dst []byte) error {
	if v.Init.Kind == graph.Normal {
		v.Init.A = 0.5
	}
	models.Fill(v, 3, dst)
	return nil
}

// speaking is a generator on devices.
type speaking struct {
	*infer.Generator
	rt   *executor.Runtime
	devs []device.Device
}

// newSpeaking opens devices such as cpu:2 with a limit on the memory of each, in bytes.
func newSpeaking(t *testing.T, kind string, count int, limit int64, o infer.GeneratorOptions) speaking {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	devs, err := device.Open(kind, device.OpenOptions{Count: count, MemoryBytes: limit})
	must(err)
	t.Cleanup(func() {
		for _, d := range devs {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	var specs []device.Spec
	for _, d := range devs {
		specs = append(specs, d.Spec())
	}
	s := speaker()
	g, err := models.Predict(s, models.Size{Microbatch: 1})
	must(err)
	plan, err := partition.New(g, partition.PlanOptions{Devices: specs, Microbatches: 1})
	must(err)
	rt, err := executor.NewRuntime(devs, executor.RuntimeOptions{})
	must(err)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	gen, err := infer.NewGenerator(t.Context(), rt, infer.Model{Spec: s, Plan: plan, Microbatch: 1}, o)
	must(err)
	must(gen.InitFrom(t.Context(), executor.Contents{Write: strong}))
	return speaking{gen, rt, devs}
}

// say appends a prompt and then each token that comes, n tokens.
func (s speaking) say(t *testing.T, prompt []int32, n int) []int32 {
	t.Helper()
	s.Forget()
	text := slices.Clone(prompt)
	for next := prompt; len(text) < len(prompt)+n; next = text[len(text)-1:] {
		token, err := s.Append(t.Context(), next, len(text))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, token)
	}
	return text[len(prompt):]
}

var prompt = []int32{3, 1, 4, 1, 5, 9, 2, 6}

// The tokens are the same however the prompt is cut into chunks and the model into
// stages, and where memory is short.
func TestGeneratorIsTheSameHoweverItIsCut(t *testing.T) {
	var want []int32
	for _, c := range []struct {
		count int
		limit int64
		rows  int
	}{{1, 0, 64}, {1, 0, 3}, {1, 0, 1}, {2, 0, 5}, {1, 24 << 10, 8}} {
		s := newSpeaking(t, "cpu", c.count, c.limit, infer.GeneratorOptions{Context: 24, Rows: c.rows})
		got := s.say(t, prompt, 16)
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) || !slices.Equal(s.say(t, prompt, 16), want) {
			t.Errorf("%+v: %v, expected %v", c, got, want)
		}
		if err := s.Choose(infer.Sampling{Temperature: 1, TopP: 1, Seed: 5}); err != nil {
			t.Fatal(err)
		}
		if drawn := s.say(t, prompt, 16); slices.Equal(drawn, want) || !slices.Equal(drawn, s.say(t, prompt, 16)) {
			t.Errorf("%+v: a seed draws %v, then something else, or what is likeliest", c, drawn)
		}
		if err := s.Choose(infer.Sampling{TopP: 1, RepetitionPenalty: 100}); err != nil {
			t.Fatal(err)
		}
		if other := s.say(t, prompt[2:], 10); repeats(append(prompt[2:len(prompt):len(prompt)], other...)) {
			t.Errorf("%+v: %v after %v, of 19 tokens, although those that were are much less likely", c, other, prompt[2:])
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(want)))) < 3 {
		t.Errorf("the tokens %v are no test", want)
	}
}

// repeats reports whether a token is in a text twice.
func repeats(text []int32) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(text)))) < len(text)
}

// Weights that are not finite end a step with an error that says so.
func TestGeneratorRefusesLogitsThatAreNotFinite(t *testing.T) {
	s := newSpeaking(t, "cpu", 1, 0, infer.GeneratorOptions{Context: 24})
	bad := func(v *graph.Value, dst []byte) error {
		err := strong(v, dst)
		if v.Name == "ln_f.bias" {
			shape.View[float32](dst)[3] = float32(math.NaN())
		}
		return err
	}
	if err := s.InitFrom(t.Context(), executor.Contents{Write: bad}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), prompt, 8); !errors.Is(err, device.ErrNonFinite) {
		t.Errorf("got %v, expected %v", err, device.ErrNonFinite)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// In steady state, a step copies in three small inputs and out one id, and allocates
// nothing.
func TestGeneratorMovesIDsAlone(t *testing.T) {
	s := newSpeaking(t, "cpu", 1, 0, infer.GeneratorOptions{Context: 24})
	s.say(t, prompt, 4)
	book := s.rt.Residency.Ledger()
	in, out, fetched := book.Total(ledger.CopyIn), book.Total(ledger.PullBack), book.OfReason(ledger.Fetch)
	token := []int32{7}
	const steps = 8
	allocs := testing.AllocsPerRun(steps-1, func() {
		if _, err := s.Append(t.Context(), token, 9); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("a step makes %v allocations", allocs)
	}
	if n := book.Total(ledger.CopyIn).Bytes - in.Bytes; n != steps*4*(1+2+1) {
		t.Errorf("%d bytes were copied in", n)
	}
	if n := book.Total(ledger.PullBack).Bytes - out.Bytes; n != steps*4 || book.OfReason(ledger.Fetch).Bytes-fetched.Bytes != n {
		t.Errorf("%d bytes were pulled back", n)
	}
	if n := book.OfUsage(ledger.CopyIn, device.Cache).Bytes; n != 2*2*24*16*4+4*19+2*(8+12+4) {
		t.Errorf("%d bytes of caches were copied in", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
