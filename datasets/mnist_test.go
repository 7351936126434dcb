package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func TestBuiltinMNIST(t *testing.T) {
	ds := open(t, Spec{Source: "mnist", Path: BuiltinMNIST})
	if ds.Train.Len() != 8000 || ds.Val.Len() != 2000 || !ds.Info.Inputs[0].Meta.Equal(shape.F32(1, 28, 28)) {
		t.Errorf("%d and %d samples of %v", ds.Train.Len(), ds.Val.Len(), ds.Info.Inputs[0].Meta)
	}
	if got, want := countClasses(t, ds), []int{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}; !slices.Equal(got, want) {
		t.Errorf("samples of each class %v, want %v", got, want)
	}
}

func TestMNISTFolder(t *testing.T) {
	images, labels := idx(20, 2, 3), idx(20)
	train := map[string][]byte{"train-images-idx3-ubyte": images, "train-labels.idx1-ubyte.gz": packed(labels)}
	test := map[string][]byte{"t10k-images-idx3-ubyte.gz": packed(idx(5, 2, 3)), "t10k-labels-idx1-ubyte": idx(5)}
	both := map[string][]byte{}
	for _, m := range []map[string][]byte{train, test} {
		for k, v := range m {
			both[k] = v
		}
	}
	cases := map[string]struct {
		files      map[string][]byte
		split      float64
		train, val int
	}{
		"both": {both, 0, 20, 5}, "train": {train, 0, 16, 4}, "test": {test, 0, 4, 1}, "split": {both, 0.5, 10, 10},
	}
	for name, c := range cases {
		ds := open(t, Spec{Source: "mnist", Path: folder(t, c.files), Split: c.split})
		if ds.Train.Len() != c.train || ds.Val.Len() != c.val || !ds.Info.Inputs[0].Meta.Equal(shape.F32(1, 2, 3)) {
			t.Errorf("%s: %d and %d samples", name, ds.Train.Len(), ds.Val.Len())
		}
	}
	ds := open(t, Spec{Source: "mnist", Path: folder(t, train), KeepOrder: true, Split: 1, Images: ImageOptions{Mean: 0.5, Std: 0.25}})
	if got, want := shape.View[float32](readAll(t, ds.Train, 0)[0])[3], float32((3.0/255-0.5)/0.25); got != want {
		t.Errorf("pixel 3 reads as %v, want %v", got, want)
	}
	p, err := openOne(context.Background(), Spec{Source: "mnist", Path: "x"}, &ds.Info, write(t, "in", string(idx(7, 2, 3))))
	if err != nil || p.Len() != 7 {
		t.Errorf("inputs: %v", err)
	}
	if _, err := OpenInputs(context.Background(), Spec{Source: "mnist", Path: "x"}, &ds.Info, write(t, "in", string(idx(7, 3, 2)))); !errors.Is(err, ErrFormat) {
		t.Errorf("images of another size: %v", err)
	}
}

func TestMNISTErrors(t *testing.T) {
	cases := map[string]struct {
		files map[string][]byte
		want  error
		says  string
	}{
		"none":      {nil, fs.ErrNotExist, "builtin:mnist"},
		"no labels": {map[string][]byte{"train-images-idx3-ubyte": idx(2, 1, 1)}, ErrFormat, "labels of train-images"},
		"count":     {map[string][]byte{"t10k-images-idx3-ubyte": idx(3, 1, 1), "t10k-labels-idx1-ubyte": idx(2)}, ErrFormat, "3 images but 2 labels"},
		"gzip":      {map[string][]byte{"t10k-images-idx3-ubyte.gz": packed(idx(3, 1, 1))[:20]}, nil, "t10k-images"},
	}
	for name, c := range cases {
		_, err := Open(context.Background(), Spec{Source: "mnist", Path: folder(t, c.files)})
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := map[string][]byte{
		"empty": nil, "magic": {1, 0, 8, 1, 0, 0, 0, 0}, "type": {0, 0, 13, 1, 0, 0, 0, 1, 0}, "rank": idx(2, 2),
		"short": idx(9)[:12], "long": append(idx(9), 0), "zero": idx(0),
		"huge": {0, 0, 8, 1, 255, 255, 255, 255},
	}
	for name, b := range bad {
		if _, err := parseIDX(streamOf(b), 1); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// idx is an IDX file of bytes counting up.
func idx(dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	n := 1
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
		n *= d
	}
	for i := range n {
		b = append(b, byte(i%10))
	}
	return b
}

func FuzzIDX(f *testing.F) {
	f.Add(idx(2, 3, 4), 3)
	f.Add(idx(5), 1)
	f.Add([]byte{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 3)
	f.Fuzz(func(t *testing.T, b []byte, rank int) {
		if rank != 1 && rank != 3 {
			return
		}
		a, err := parseIDX(streamOf(b), rank)
		if err != nil {
			return
		}
		if data, err := a.stored(t.Context()); err != nil || a.shape.Elems() != len(data) || len(data) > len(b) {
			t.Fatalf("%v with %d bytes, %v", a.shape, len(data), err)
		}
	})
}
