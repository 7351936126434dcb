package berth_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

func testService(t *testing.T, c *configs.Config, dir string) {
	trained, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trained.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := trained.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trained.Predict(t.Context(), "x.csv", nil); err == nil {
		t.Error("Predict meanwhile is no error")
	}
	var all sync.WaitGroup
	for k := range 20 {
		all.Go(func() {
			n := 1 + k%11
			in := make([]float32, 2*n)
			for i := range n {
				in[2*i], in[2*i+1] = 1, -1
			}
			out, err := s.Predict(context.Background(), tensor.New(tensor.WithShape(n, 2), tensor.WithBacking(in)))
			if err != nil {
				t.Error(err)
				return
			}
			for i := range n {
				if p := out.Float32s()[4*i : 4*i+4]; p[2] < 0.5 {
					t.Errorf("request %d, sample %d: %v", k, i, p)
				}
			}
		})
	}
	all.Wait()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	point := tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float32{1, 1}))
	if _, err := s.Predict(over, point); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for _, bad := range []*tensor.Dense{nil, tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 1})), tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float64{1, 1}))} {
		if _, err := s.Predict(t.Context(), bad); !errors.Is(err, berth.ErrOptions) {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Predict(t.Context(), point); !errors.Is(err, berth.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
