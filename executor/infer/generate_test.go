package infer_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/testall"
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
	s.Forget(0)
	text := slices.Clone(prompt)
	for next := prompt; len(text) < len(prompt)+n; next = text[len(text)-1:] {
		token, err := s.Append(t.Context(), 0, next, len(text))
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
		s.Choose(0, infer.Sampling{Temperature: 1, TopP: 1, Seed: 5})
		if drawn := s.say(t, prompt, 16); slices.Equal(drawn, want) || !slices.Equal(drawn, s.say(t, prompt, 16)) {
			t.Errorf("%+v: a seed draws %v, then something else, or what is likeliest", c, drawn)
		}
		s.Choose(0, infer.Sampling{TopP: 1, RepetitionPenalty: 100})
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
	if _, err := s.Append(t.Context(), 0, prompt, 8); !errors.Is(err, device.ErrNonFinite) {
		t.Errorf("got %v, expected %v", err, device.ErrNonFinite)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// In steady state, a step copies in a few small inputs and out one id, and allocates
// nothing.
func TestGeneratorMovesIDsAlone(t *testing.T) {
	s := newSpeaking(t, "cpu", 1, 0, infer.GeneratorOptions{Context: 24})
	s.say(t, prompt, 4)
	book := s.rt.Residency.Ledger()
	in, out, fetched := book.Total(ledger.CopyIn), book.Total(ledger.PullBack), book.OfReason(ledger.Fetch)
	token := []int32{7}
	const steps = 8
	allocs := testing.AllocsPerRun(steps-1, func() {
		if _, err := s.Append(t.Context(), 0, token, 9); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("a step makes %v allocations", allocs)
	}
	if n := book.Total(ledger.CopyIn).Bytes - in.Bytes; n != steps*4*(1+3+1+2+3+1) {
		t.Errorf("%d bytes were copied in", n)
	}
	if n := book.Total(ledger.PullBack).Bytes - out.Bytes; n != steps*4 || book.OfReason(ledger.Fetch).Bytes-fetched.Bytes != n {
		t.Errorf("%d bytes were pulled back", n)
	}
	if n := book.OfUsage(ledger.CopyIn, device.Cache).Bytes; n != 2*2*24*16*4+4*19 {
		t.Errorf("%d bytes of caches were copied in", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// sayTogether continues prompts by a token each in a step, of as many texts as have not ended;
// text i gets counts[i] tokens.
func (s speaking) sayTogether(t *testing.T, prompts [][]int32, counts []int) [][]int32 {
	t.Helper()
	texts, turns := make([][]int32, len(prompts)), []infer.Turn{}
	for i, p := range prompts {
		s.Forget(i)
		next, err := s.Append(t.Context(), i, p, len(p))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = []int32{next}
	}
	for {
		turns = turns[:0]
		for i, text := range texts {
			if len(text) < counts[i] {
				turns = append(turns, infer.Turn{Text: i, Token: text[len(text)-1], Number: len(prompts[i]) + len(text)})
			}
		}
		if len(turns) == 0 {
			return texts
		}
		if err := s.Step(t.Context(), turns); err != nil {
			t.Fatal(err)
		}
		for _, x := range turns {
			if x.Err != nil {
				t.Fatal(x.Err)
			}
			texts[x.Text] = append(texts[x.Text], x.Next)
		}
	}
}

// Texts of different lengths have the tokens together that each has alone, by its own sampling,
// at whatever place, in one stage and in two, and on a GPU.
func TestTextsAtOnceAreThoseAlone(t *testing.T) {
	t.Run("cpu", func(t *testing.T) { sayTogetherAsAlone(t, "cpu", 1, 5) })
	t.Run("cpu:2", func(t *testing.T) { sayTogetherAsAlone(t, "cpu", 2, 5) })
	t.Run("opencl", func(t *testing.T) {
		testall.Long(t)
		if devs, err := device.Open("opencl", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20}); err != nil {
			testall.NoOpenCL(t, err)
		} else if err := devs[0].Close(); err != nil {
			t.Fatal(err)
		}
		sayTogetherAsAlone(t, "opencl", 1, 2)
	})
}

func sayTogetherAsAlone(t *testing.T, kind string, devices, texts int) {
	all := [][]int32{prompt, {7}, {2, 2, 18, 0, 11}, append(slices.Clone(prompt), prompt...), {5, 4}}
	prompts, counts := all[:texts], []int{16, 9, 2, 7, 20}[:texts]
	sampling := []infer.Sampling{{TopP: 1}, {Temperature: 1, TopP: 1, Seed: 5}, {Temperature: 1, TopP: 0.9, Seed: 5}, {TopP: 1, RepetitionPenalty: 3}, {Temperature: 2, TopK: 7, TopP: 1, Seed: 1}}
	alone := newSpeaking(t, kind, devices, 0, infer.GeneratorOptions{Context: 24, Rows: 5})
	s := newSpeaking(t, kind, devices, 0, infer.GeneratorOptions{Context: 24, Rows: 5, Texts: len(prompts)})
	var want [][]int32
	for i, p := range prompts {
		alone.Choose(0, sampling[i])
		s.Choose(i, sampling[i])
		want = append(want, alone.say(t, p, counts[i]))
	}
	for range 2 {
		if got := s.sayTogether(t, prompts, counts); !reflect.DeepEqual(got, want) {
			t.Errorf("together %v, alone %v", got, want)
		}
	}
	if err := errors.Join(s.Close(), alone.Close()); err != nil {
		t.Error(err)
	}
}

// A step of several texts allocates nothing, and copies in and out as many numbers as that
// many steps of one; the caches have room for all texts.
func TestStepsOfTextsAllocateNothing(t *testing.T) {
	s := newSpeaking(t, "cpu", 1, 0, infer.GeneratorOptions{Context: 24, Texts: 4})
	turns := make([]infer.Turn, 4)
	for i := range turns {
		if _, err := s.Append(t.Context(), i, prompt[:2+i], 2+i); err != nil {
			t.Fatal(err)
		}
		turns[i] = infer.Turn{Text: i, Token: int32(i), Number: 9}
	}
	step := func() {
		if err := s.Step(t.Context(), turns); err != nil {
			t.Fatal(err)
		}
	}
	step()
	book := s.rt.Residency.Ledger()
	in, out := book.Total(ledger.CopyIn), book.Total(ledger.PullBack)
	const steps = 8
	if allocs := testing.AllocsPerRun(steps-1, step); allocs > 0 {
		t.Errorf("a step makes %v allocations", allocs)
	}
	if n := book.Total(ledger.CopyIn).Bytes - in.Bytes; n != steps*4*4*(1+3+1+2+3+1) {
		t.Errorf("%d bytes were copied in", n)
	}
	if n := book.Total(ledger.PullBack).Bytes - out.Bytes; n != steps*4*4 {
		t.Errorf("%d bytes were pulled back", n)
	}
	const caches = 4 * (2*2*24*16*4 + 4*19)
	if n := book.OfUsage(ledger.CopyIn, device.Cache).Bytes; n != caches {
		t.Errorf("%d bytes of caches were copied in", n)
	}
	if n := s.devs[0].Stats().LiveBy[device.Cache]; n < caches || n > caches+caches/8 { // rounded up to the device's steps
		t.Errorf("the device has %d bytes of caches, which take %d", n, caches)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Numbers that are not finite end the text that has them, and no other.
func TestTextsThatAreNotFiniteEndAlone(t *testing.T) {
	s := newSpeaking(t, "cpu", 1, 0, infer.GeneratorOptions{Context: 24, Texts: 3})
	bad := func(v *graph.Value, dst []byte) error {
		err := strong(v, dst)
		if v.Name == "wpe.weight" {
			shape.View[float32](dst)[8*16] = float32(math.Inf(1)) // of position 8
		}
		return err
	}
	if err := s.InitFrom(t.Context(), executor.Contents{Write: bad}); err != nil {
		t.Fatal(err)
	}
	var want []int32
	for i, p := range [][]int32{prompt[:3], prompt, {1}} {
		next, err := s.Append(t.Context(), i, p, len(p))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, next)
	}
	turns := []infer.Turn{{Text: 0, Token: want[0], Number: 4}, {Text: 1, Token: want[1], Number: 9}, {Text: 2, Token: want[2], Number: 2}}
	if err := s.Step(t.Context(), turns); err != nil {
		t.Fatal(err)
	}
	for i, x := range turns {
		if errors.Is(x.Err, device.ErrNonFinite) != (i == 1) || (x.Err != nil) != (i == 1) {
			t.Errorf("text %d: %v", i, x.Err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
