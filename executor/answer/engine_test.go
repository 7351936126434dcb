package answer_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth/datasets"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/smallrun"
)

// modelOf is the model of a small run, whose weights are on its runtime.
func modelOf(r *smallrun.Run) answer.Model {
	return answer.Model{Infer: infer.Model{Spec: r.Spec, Plan: r.Plan, Microbatch: 32}, Info: &r.Data.Info, Source: "digits"}
}

// samplesOf reads the first n samples of the validation part.
func samplesOf(t *testing.T, r *smallrun.Run, n int) (shape.Meta, []byte) {
	t.Helper()
	memory := r.Data.Val.Alloc(n)
	if _, err := r.Data.Val.Read(datasets.Cursor{}, n, memory); err != nil {
		t.Fatal(err)
	}
	m := r.Data.Info.Inputs[0].Meta
	m.Shape = append([]int{n}, m.Shape...)
	return m, memory[0][:m.Bytes()]
}

// The same samples have the same answers, to the bit, as a part of the data, in memory, and
// through a service that joins the requests of several goroutines into batches.
func TestOneAnswerOnAllWays(t *testing.T) {
	r := smallrun.New(t, "cpu")
	m := modelOf(r)
	const n = 7
	var want []answer.Prediction
	stop := errors.New("enough")
	e := answer.NewEngine(r.Runtime, m, answer.EngineOptions{})
	err := e.Predict(t.Context(), r.Data.Val, &infer.Progress{}, func(p answer.Prediction) error {
		if p.Index == n {
			return stop
		}
		want = append(want, p)
		return nil
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	meta, memory := samplesOf(t, r, n)
	b, err := m.Check(meta, memory)
	if err != nil {
		t.Fatal(err)
	}
	_, out, err := e.Outputs(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range want {
		if got := out[10*i:][:10]; !slices.Equal(got, p.Values) {
			t.Errorf("sample %d: %v in memory, %v of the part", i, got, p.Values)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := answer.NewService(t.Context(), []answer.Group{{Runtime: r.Runtime, Model: m}}, answer.ServiceOptions{Batch: 4, Queue: 100, Texts: 1})
	if err != nil {
		t.Fatal(err)
	}
	size := len(memory) / n
	var all sync.WaitGroup
	for i, p := range want {
		all.Go(func() {
			one := shape.Meta{DType: meta.DType, Shape: append([]int{1}, meta.Shape[1:]...)}
			b, err := m.Check(one, memory[i*size:][:size])
			if err != nil {
				t.Error(err)
				return
			}
			got, err := s.Answers(context.Background(), b)
			if err != nil || *got[0].Class != *p.Class || !slices.Equal(got[0].Values, p.Values) {
				t.Errorf("sample %d: %v, %v from the service, %v of the part", i, got, err, p)
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Answers(t.Context(), b); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("got %v after Close", err)
	}
}

// An answer with a value that is not finite has no class.
func TestAnswersThatAreNotFinite(t *testing.T) {
	r := smallrun.New(t, "cpu")
	m := modelOf(r)
	meta, memory := samplesOf(t, r, 2)
	shape.View[float32](memory)[3] = float32(math.Inf(1)) // of sample 0
	b, err := m.Check(meta, memory)
	if err != nil {
		t.Fatal(err)
	}
	s, err := answer.NewService(t.Context(), []answer.Group{{Runtime: r.Runtime, Model: m}}, answer.ServiceOptions{Batch: 4, Queue: 100, Texts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Answers(t.Context(), b)
	if err != nil || got[0].Class != nil || got[0].Label != "" || got[0].Values[0] == got[0].Values[0] || got[1].Class == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSamplesAreRefused(t *testing.T) {
	r := smallrun.New(t, "cpu")
	m := modelOf(r)
	meta, memory := samplesOf(t, r, 2)
	for _, bad := range []shape.Meta{
		{DType: shape.Int32, Shape: meta.Shape}, shape.F32(2, 63), shape.F32(append([]int{1}, meta.Shape...)...), shape.F32(append([]int{0}, meta.Shape[1:]...)...),
	} {
		if _, err := m.Check(bad, memory); !errors.Is(err, errs.ErrOptions) || !strings.Contains(err.Error(), "f32[n,") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	e := answer.NewEngine(r.Runtime, m, answer.EngineOptions{})
	b, err := m.Check(meta, memory)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Activations(t.Context(), "layer.0", b); !errors.Is(err, errs.ErrOptions) || !strings.Contains(err.Error(), "layers.0") {
		t.Errorf("got %v", err)
	}
	if _, err := m.NewText(t.Context(), answer.GenerateOptions{Prompt: "a"}, nil); !errors.Is(err, errs.ErrOptions) || !strings.Contains(err.Error(), "data.source digits") {
		t.Errorf("got %v", err)
	}
}
