package specs_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// waves are series of 3 to 20 numbers, each a sine of its own speed. The target of each
// position is the number after it.
func waves() *custom.Set {
	return &custom.Set{
		Name: "waves", Version: 1, Len: 90,
		Input: shape.F32(20, 1), Target: shape.F32(20, 1),
		Length: func(i int) int { return 3 + i*7%18 }, Buckets: []int{6, 12, 20},
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			x, y := input.Float32s(), target.Float32s()
			for t := range x {
				speed := 0.3 + float64(s.Index%5)/10
				x[t], y[t] = float32(math.Sin(speed*float64(t))), float32(math.Sin(speed*float64(t+1)))
			}
			return nil
		},
	}
}

const wavesConfig = `
data: {source: given, task: regression}
model: {layers: [{type: lstm, units: 12}, {type: dense, units: 1}]}
train: {epochs: 4, batch: 8, microbatches: 2, reduction: tree}
optimizer: {name: adam, lr: 0.02}
`

// A program's own series of numbers, each as long as it is, train, resume, evaluate and
// predict, with the same bits whatever runs them.
func TestOwnSequences(t *testing.T) {
	testall.Long(t)
	whole, apart := t.TempDir(), t.TempDir()
	r, err := runtest.OpenCorners(t, waves(), wavesConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, r, berth.TrainOptions{Dir: whole, AssertResident: true})
	if m := want.Final.Metrics; !(m["rmse"] < 0.35) || !(m["r2"] > 0.6) {
		t.Errorf("metrics %v", m)
	}
	for _, way := range []string{"devices: {use: 'cpu:2'}\npartition: {replicas: 2}", "devices: {op_by_op: plain}", "devices: {memory: 70%}"} {
		other, err := runtest.OpenCorners(t, waves(), wavesConfig+way)
		if err != nil {
			t.Fatal(err)
		}
		if got := runtest.Train(t, other, berth.TrainOptions{}); got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%s: other weights", way)
		}
	}
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: apart, MaxSteps: 13}); err != nil {
		t.Fatal(err)
	}
	if got := runtest.Train(t, r, berth.TrainOptions{Dir: apart, Resume: true}); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("a resumed run has other weights")
	}
	var lengths []int
	if _, err = r.Predict(t.Context(), berth.Weights{Dir: whole}, "", func(p berth.Prediction) error {
		lengths = append(lengths, len(p.Values))
		return nil
	}); err != nil || len(lengths) != 18 || slices.Max(lengths) > 20 || len(slices.Compact(slices.Sorted(slices.Values(lengths)))) < 5 {
		t.Errorf("answers of the lengths %v, %v", lengths, err)
	}
	fewer := waves()
	fewer.Buckets = nil // 16, 20
	if r, err = runtest.OpenCorners(t, fewer, wavesConfig); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: apart, Resume: true}); !errors.Is(err, berth.ErrChanged) {
		t.Errorf("resumed with other buckets: %v", err)
	}
}

// Answers about series in memory are those of each alone.
func TestAnswersAboutSequences(t *testing.T) {
	dir := t.TempDir()
	r, err := runtest.OpenCorners(t, waves(), wavesConfig)
	if err != nil {
		t.Fatal(err)
	}
	var inspected *tensor.Dense
	runtest.Train(t, r, berth.TrainOptions{Dir: dir, Observer: &berth.Observer{Inspect: func(ctx context.Context, i *berth.Inspection) (err error) {
		inspected, err = i.Activations(ctx, "lstm_1", nil)
		return err
	}}})
	if s := inspected.Shape(); s[0] > 8 || s[1] != 20 || s[2] != 12 {
		t.Errorf("activations of the last step are %v", s)
	}
	m, err := berth.OpenTrained(t.Context(), r.Config, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func(rows ...[]float32) []berth.Prediction {
		most := 0
		for _, row := range rows {
			most = max(most, len(row))
		}
		var all []float32
		for _, row := range rows {
			all = append(all, row...)
			for range most - len(row) {
				all = append(all, float32(math.NaN()))
			}
		}
		list, err := s.Answers(t.Context(), tensor.New(tensor.WithShape(len(rows), most, 1), tensor.WithBacking(all)))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	short, long := []float32{0, 0.5}, []float32{0, 0.3, 0.6, 0.8, 0.9, 1, 1, 0.9, 0.8, 0.6, 0.3, 0, -0.3}
	both := ask(short, long)
	if a, b := ask(short)[0], ask(long)[0]; len(a.Values) != 2 || !slices.Equal(a.Values, both[0].Values) || !slices.Equal(b.Values, both[1].Values) {
		t.Errorf("answers %v and %v alone, %v together", a.Values, b.Values, both)
	}
	nan := float32(math.NaN())
	if _, err := s.Answers(t.Context(), tensor.New(tensor.WithShape(1, 2, 1), tensor.WithBacking([]float32{nan, 1}))); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "NaN only after them") {
		t.Errorf("padding before numbers: %v", err)
	}
}

// Sequences that no model takes are refused.
func TestOwnSequencesRefused(t *testing.T) {
	for want, change := range map[string]func(s *custom.Set){
		"sample 3: its length is 0": func(s *custom.Set) { s.Length = func(i int) int { return 3 - i } },
		"sample 2: panic: no length": func(s *custom.Set) {
			s.Length = func(i int) int {
				if i == 2 {
					panic("no length")
				}
				return 3
			}
		},
		"the largest bucket is 19":                    func(s *custom.Set) { s.Buckets = []int{4, 19} },
		"give numbers of positions, the fewest first": func(s *custom.Set) { s.Buckets = []int{20, 4} },
		"buckets and no function Length":              func(s *custom.Set) { s.Length = nil },
		"or numbers, f32[positions, features]":        func(s *custom.Set) { s.Input = shape.F32(20) },
		"its target, f32[19,1], another number":       func(s *custom.Set) { s.Target = shape.F32(19, 1) },
	} {
		s := waves()
		change(s)
		if _, err := runtest.OpenCorners(t, s, wavesConfig); !errors.Is(err, berth.ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := custom.Check(waves()); err != nil {
		t.Error(err)
	}
	short := waves()
	fill := short.Fill
	short.Fill = func(s custom.Sample, input, target *tensor.Dense) error {
		last := target.Float32s()[len(target.Float32s())-1:]
		kept := last[0]
		err := fill(s, input, target)
		last[0] = kept
		return err
	}
	if err := custom.Check(short); err == nil || !strings.Contains(err.Error(), "the target differs from one call to the next") {
		t.Errorf("an element that is not written: %v", err)
	}
}
