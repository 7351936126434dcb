package trained_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
)

func testService(t *testing.T, c *configs.Config, dir string) {
	trained, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trained.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := trained.Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trained.Predict(t.Context(), "x.csv", func(berth.Prediction) error { return nil }); err == nil {
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

// A service takes the features of a table in their own unit, as a file has them.
func TestServiceScalesFeatures(t *testing.T) {
	data, inputs, dir := filepath.Join(t.TempDir(), "data.csv"), filepath.Join(t.TempDir(), "new.csv"), t.TempDir()
	rows := "a,b,y\n" + strings.Repeat("100,3,1000\n120,7,1010\n150,1,1040\n", 8)
	if err := errors.Join(os.WriteFile(data, []byte(rows), 0o600), os.WriteFile(inputs, []byte("a,b\n120,3\n130,4\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	text := "data: {source: csv, path: " + data + ", label: y, task: regression}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 1, batch: 8}\n"
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	runtest.Train(t, r, berth.TrainOptions{Dir: dir})
	trained, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	var want []float32
	_, err = trained.Predict(t.Context(), inputs, func(p berth.Prediction) error {
		want = append(want, p.Values...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := trained.Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Predict(t.Context(), tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{120, 3, 130, 4})))
	if err != nil || !slices.Equal(got.Float32s(), want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
}

// A request with a result that is not finite fails alone, also where ops are checked.
func TestServiceGoesOnAfterAResultThatIsNotFinite(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "data.csv"), t.TempDir()
	if err := os.WriteFile(data, []byte("a,b,y\n"+strings.Repeat("1,3,x\n2,1,z\n", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "data: {source: csv, path: " + data + ", label: y, standardize: false}\nmodel: {layers: [{type: exp, name: boom}, {type: dense, units: 2}]}\ntrain: {epochs: 1, batch: 8}\ndevices: {use: \"cpu:2\", op_by_op: plain}\n"
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	runtest.Train(t, r, berth.TrainOptions{Dir: dir})
	trained, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	s, err := trained.Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var want []float32
	for i, x := range []float32{3, 300, 300, 3, 300, 3} {
		in := []float32{1, 3, x, 1, 2, 1}[:2+4*(i%2)] // batches of 1 and 4
		in[len(in)-2] = x
		got, err := s.Predict(t.Context(), tensor.New(tensor.WithShape(len(in)/2, 2), tensor.WithBacking(in)))
		if x > 100 {
			if !errors.Is(err, berth.ErrNonFinite) {
				t.Fatalf("request %d: %v", i, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if want == nil {
			want = slices.Clone(got.Float32s())
		} else if i%2 == 0 && !slices.Equal(got.Float32s(), want) {
			t.Errorf("request %d: %v, want %v", i, got.Float32s(), want)
		}
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

// A service answers from several goroutines at once, as Predict does, and lets a request
// go whose context ends.
func TestService(t *testing.T) {
	dir := t.TempDir()
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	runtest.Train(t, r, berth.TrainOptions{Dir: dir})
	testService(t, r.Config, dir)
}
