package datasets

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func TestTensors(t *testing.T) {
	want := make([]float32, 24)
	for i := range want {
		want[i] = float32(i) / 8
	}
	for _, path := range []string{"testdata/pair.npz", "testdata/packed.npz", "testdata", "testdata/input.npy"} {
		ds := open(t, Spec{Source: "tensors", Path: path, KeepOrder: true})
		got := readAll(t, ds.Train, 0)
		if ds.Val != nil || !slices.Equal(shape.View[float32](got[0]), want) || !slices.Equal(shape.View[int32](got[1]), []int32{0, 2, 1, 2}) {
			t.Errorf("%s: %v, targets %v", path, got[0], got[1])
		}
		if !ds.Info.Inputs[0].Meta.Equal(shape.F32(2, 3)) || !ds.Info.Target.Meta.Equal(shape.I32()) || ds.Info.Classes != 3 {
			t.Errorf("%s: %+v", path, ds.Info)
		}
	}
	info := open(t, Spec{Source: "tensors", Path: "testdata"}).Info
	for _, path := range []string{"testdata/big.npy", "testdata/v2.npy", "testdata/v3.npy", "testdata/pair.npz"} {
		p, err := openOne(context.Background(), Spec{Source: "tensors", Path: "x"}, &info, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := shape.View[float32](readAll(t, p, 0)[0]); !slices.Equal(got, want) {
			t.Errorf("%s: %v", path, got)
		}
	}
	ds := open(t, Spec{Source: "tensors", Path: "testdata/mlp-sgd.safetensors"})
	if ds.Train.Len() != 16 || !ds.Info.Inputs[0].Meta.Equal(shape.F32(64)) || ds.Info.Target.Meta.DType != shape.Int32 {
		t.Errorf("%+v", ds.Info)
	}
	ds = open(t, Spec{Source: "tensors", Path: "testdata/pair.npz", Tensors: TensorOptions{Input: "target", Target: "input"}})
	if ds.Info.Tokens != 3 || ds.Info.Classes != 0 || !ds.Info.Target.Meta.Equal(shape.F32(2, 3)) {
		t.Errorf("%+v", ds.Info)
	}
}

func TestTensorsErrors(t *testing.T) {
	cases := map[string]struct {
		path string
		opt  TensorOptions
		says string
	}{
		"name":        {"testdata/pair.npz", TensorOptions{Input: "x"}, `no array "x"`},
		"safetensors": {"testdata/mlp-sgd.safetensors", TensorOptions{Input: "x"}, "no such tensor"},
		"rows":        {"testdata/mlp-sgd.safetensors", TensorOptions{Input: "losses"}, "10 samples"},
		"fortran":     {"testdata/fortran.npy", TensorOptions{Input: "fortran"}, "Fortran order"},
		"scalar":      {"testdata/scalar.npy", TensorOptions{Input: "scalar"}, "no samples"},
		"kind":        {"testdata/../csv.go", TensorOptions{}, "tensors are read from"},
		"missing":     {"testdata/none", TensorOptions{}, "none"},
	}
	for name, c := range cases {
		if _, err := Open(context.Background(), Spec{Source: "tensors", Path: c.path, Tensors: c.opt}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Ids begin at 0, among the samples to train on and among those to predict from.
func TestTensorsRefuseNegativeIDs(t *testing.T) {
	header := npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1)}\n", 0)
	good, bad := append(slices.Clone(header), shape.Bytes([]int32{0, 1})...), append(slices.Clone(header), shape.Bytes([]int32{3, -1})...)
	dir := folder(t, map[string][]byte{"input.npy": good, "target.npy": bad, "ask.npy": bad})
	const want = "element 1 is -1, but ids begin at 0"
	if _, err := Open(t.Context(), Spec{Source: "tensors", Path: dir}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
		t.Errorf("targets: %v, want %q", err, want)
	}
	info := &Info{Inputs: []Field{{"input", shape.I32(1)}}, Tokens: 4}
	if _, err := OpenInputs(t.Context(), Spec{Source: "tensors", Path: dir}, info, filepath.Join(dir, "ask.npy")); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
		t.Errorf("inputs: %v, want %q", err, want)
	}
}
