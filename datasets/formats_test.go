package datasets

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

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

func packed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

func folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
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
		if _, _, err := parseIDX(b, 1); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzIDX(f *testing.F) {
	f.Add(idx(2, 3, 4), 3)
	f.Add(idx(5), 1)
	f.Add([]byte{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 3)
	f.Fuzz(func(t *testing.T, b []byte, rank int) {
		if rank != 1 && rank != 3 {
			return
		}
		data, dims, err := parseIDX(b, rank)
		if err == nil && shape.Shape(dims).Elems() != len(data) {
			t.Fatalf("%v with %d bytes", dims, len(data))
		}
	})
}

// A small gzip file that unpacks to much is refused before it is in memory.
func TestUnpackLimit(t *testing.T) {
	bomb := packed(make([]byte, unpackFloor+1))
	if _, err := unpack("bomb.gz", bomb); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	m, err := w.Create("input.npy")
	if err == nil {
		_, err = m.Write(make([]byte, unpackFloor+1))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := readNpz(z.Bytes(), "input"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "unpacks to more") {
		t.Error(err)
	}
}

func TestDigitsInputs(t *testing.T) {
	ds := open(t, Spec{Source: "digits"})
	line := strings.Repeat("8,", 63) + "16"
	for name, text := range map[string]string{"pixels": line + "\n" + line, "with label": line + ",3\r\n\r\n" + line + ",4\r\n"} {
		p, err := openOne(context.Background(), Spec{Source: "digits"}, &ds.Info, write(t, "in.csv", text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := shape.View[float32](readAll(t, p, 0)[0]); p.Len() != 2 || got[0] != 0.5 || got[63] != 1 {
			t.Errorf("%s: %d samples, %v", name, p.Len(), got)
		}
	}
	for text, says := range map[string]string{
		"":                        "no lines",
		line + "\n1,2":            "in.csv:2:3: 2 fields",
		"17," + line:              "in.csv:1:1: number above 16",
		"x," + line:               "in.csv:1:1: 'x' is not a digit",
		line + ",3,4":             "more than 65 fields",
		line + ",":                "empty field",
		line + "\n" + line + ",1": "some lines",
		line + ",1\n" + line:      "some lines",
	} {
		_, err := OpenInputs(context.Background(), Spec{Source: "digits"}, &ds.Info, write(t, "in.csv", text))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q…: %v, want %q", text, err, says)
		}
	}
}

func TestText(t *testing.T) {
	s := Spec{Source: "text", Path: write(t, "x.txt", strings.Repeat("héllo\nwörld ", 10)), Split: 0.8, KeepOrder: true, Text: TextOptions{Context: 7}}
	ds := open(t, s)
	if got, _ := ds.Info.Vocab.MarshalText(); string(got) != "\n dhlorwéö" {
		t.Errorf("vocabulary %q", got)
	}
	if ds.Train.Len() != 95/7 || ds.Val.Len() != 23/7 {
		t.Errorf("%d and %d windows", ds.Train.Len(), ds.Val.Len())
	}
	got := readAll(t, ds.Train, 0)
	text := ds.Info.Vocab.Decode(shape.View[int32](got[0]))
	if !strings.HasPrefix(strings.Repeat("héllo\nwörld ", 10), text) {
		t.Errorf("windows say %q", text)
	}
	var info Info // as it would come back from a checkpoint
	b, err := json.Marshal(ds.Info)
	if err = errors.Join(err, json.Unmarshal(b, &info)); err != nil {
		t.Fatal(err)
	}
	p, err := OpenInputs(context.Background(), s, &info, write(t, "in", "wörld öld\nhéllo"))
	if err != nil || len(p) != 2 || p[0].Len() != 2 || p[1].Len() != 1 || !p[1].Fields()[0].Meta.Equal(shape.I32(1)) {
		t.Errorf("inputs: %v", err)
	}
	if p, err := openOne(context.Background(), s, &info, write(t, "in", "wörl")); err != nil || !p.Fields()[0].Meta.Equal(shape.I32(4)) {
		t.Errorf("a short text: %v", err)
	}
	for name, c := range map[string]struct{ text, says string }{
		"unknown": {"héllo\nwÖrld", "line 2, column 2: 'Ö' is not among the 10 characters"},
		"empty":   {"", "is empty"},
		"bytes":   {"h\n\xffllo", "2:1: not UTF-8"},
	} {
		if _, err := OpenInputs(context.Background(), s, &ds.Info, write(t, "in", c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Text.Context = 30
	if _, err := Open(context.Background(), s); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), "validation part") {
		t.Error(err)
	}
	if got := ds.Info.Vocab.Decode([]int32{-1, 99}); got != "\ufffd\ufffd" {
		t.Errorf("unknown ids decode to %q", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

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

// npy is a version 1 file with this header and data.
func npy(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestHostileNpy(t *testing.T) {
	if _, err := parseNpy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n", 8)); err != nil {
		t.Fatal(err)
	}
	cases := map[string][]byte{
		"empty": nil, "magic": []byte("NUMPY....."), "version": []byte("\x93NUMPY\x04\x00\x00\x00"),
		"cut header":  []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"),
		"short v2":    []byte("\x93NUMPY\x02\x00\x00\x00"),
		"no dict":     npy("[]", 0),
		"unclosed":    npy("{'descr': '<f4'", 0),
		"missing":     npy("{'descr': '<f4', 'shape': (0,)}", 0),
		"unknown":     npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), 'x': 1}", 0),
		"repeated":    npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", 0),
		"object":      npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8),
		"order":       npy("{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", 4),
		"struct":      npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4),
		"bool":        npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", 4),
		"negative":    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4),
		"overflow":    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0),
		"too large":   npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 0),
		"short data":  npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7),
		"long data":   npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9),
		"trailing":    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} x", 0),
		"long header": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}"+strings.Repeat(" ", 12000), 0),
	}
	for name, b := range cases {
		if _, err := parseNpy(b); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzNpy(f *testing.F) {
	for _, name := range []string{"big", "v2", "v3", "fortran", "scalar"} {
		b, err := os.ReadFile("testdata/" + name + ".npy")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseNpy(bytes.Clone(b))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if len(a.data) > len(b) || a.shape.Elems()*a.dtype.Size() != len(a.data) {
			t.Fatalf("%v %v with %d bytes", a.dtype, a.shape, len(a.data))
		}
		for _, float := range []bool{false, true} {
			if c, rows, err := a.column("x", float); err == nil && rows*c.size > len(c.data) {
				t.Fatalf("%d rows of %d bytes in %d", rows, c.size, len(c.data))
			}
		}
	})
}

func FuzzNpz(f *testing.F) {
	for _, name := range []string{"pair", "packed"} {
		b, err := os.ReadFile("testdata/" + name + ".npz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := readNpz(b, "input"); err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	})
}
