package safetensors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
	"pgregory.net/rapid"
)

// file is the bytes of a file with this header and data.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func read(b []byte) (*File, error) {
	return Read(context.Background(), bytes.NewReader(b), int64(len(b)))
}

// testdata/numpy.safetensors was written from NumPy arrays with Python's json and struct.
func TestFileOfPython(t *testing.T) {
	f, err := Open(t.Context(), "testdata/numpy.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Metadata()["note"] != `äß "q"` || len(f.Tensors()) != 11 {
		t.Errorf("metadata %v, %d tensors", f.Metadata(), len(f.Tensors()))
	}
	floats := map[string][]float32{
		"f64":  {1.5, -2.25, 1e-3},
		"f32":  {0, .25, .5, .75, 1, 1.25},
		"f16":  {1, -0.5, 1023.0 / 1024 / 16384, 50.0 / 16777216, 65504, float32(math.Inf(1))},
		"i16":  {-300, 300},
		"i8":   {-1, 127},
		"u8":   {0, 255},
		"bool": {1, 0, 1}, "i32": {7}, "empty": {},
	}
	for name, want := range floats {
		if got, err := f.Float32(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("Float32(%s) = %v, %v; want %v", name, got, err, want)
		}
	}
	ints := map[string][]int32{
		"i64": {1, -2, math.MaxInt32, math.MinInt32}, "i32": {7}, "i16": {-300, 300}, "i8": {-1, 127}, "u8": {0, 255}, "bool": {1, 0, 1},
	}
	for name, want := range ints {
		if got, err := f.Int32(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("Int32(%s) = %v, %v; want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"i64", "u32"} {
		if _, err := f.Float32(name); !errors.Is(err, ErrConvert) {
			t.Errorf("Float32(%s): %v", name, err)
		}
	}
	for _, name := range []string{"u32", "f32"} {
		if _, err := f.Int32(name); !errors.Is(err, ErrConvert) {
			t.Errorf("Int32(%s): %v", name, err)
		}
	}
	if x, err := f.Lookup("i64"); err != nil || !x.Shape.Equal(shape.Of(2, 2)) || x.String() != "i64 I64[2,2]" {
		t.Errorf("%v %v", x, err)
	}
}

func TestHostileFiles(t *testing.T) {
	const ok = `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	if _, err := read(file(ok, 8)); err != nil {
		t.Fatal(err)
	}
	two := func(a, b string) string {
		return `{"a":{"dtype":"U8","shape":[4],"data_offsets":` + a + `},"b":{"dtype":"U8","shape":[4],"data_offsets":` + b + `}}`
	}
	cases := map[string]struct {
		file []byte
		want string
	}{
		"empty":           {nil, "too few"},
		"header length":   {file(ok, 8)[:20], "a header of"},
		"huge length":     {binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "a header of"},
		"cut off":         {file(ok, 7), "cut off"},
		"extra data":      {file(ok, 9), "take 8 bytes"},
		"not an object":   {file(`[]`, 0), "begin with"},
		"trailing":        {file(ok+"{}", 8), "after the header"},
		"unclosed":        {file(`{"a":{"dtype":"F32"`, 8), "tensor a"},
		"twice":           {file(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "twice"},
		"overlap":         {file(two("[0,4]", "[2,6]"), 6), "overlaps"},
		"gap":             {file(two("[0,4]", "[5,9]"), 9), "no tensor"},
		"same place":      {file(two("[0,4]", "[0,4]"), 4), "overlaps"},
		"negative":        {file(two("[-4,0]", "[0,4]"), 4), "whole number"},
		"fraction":        {file(two("[0,4.5]", "[4,8]"), 8), "whole number"},
		"reversed":        {file(two("[4,0]", "[4,8]"), 8), "needs 4 bytes"},
		"three offsets":   {file(two("[0,4,4]", "[4,8]"), 8), "3 data_offsets"},
		"size":            {file(`{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}}`, 8), "needs 16 bytes"},
		"overflow":        {file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "too many elements"},
		"huge dimension":  {file(`{"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,0]}}`, 0), "too large"},
		"beyond int64":    {file(`{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}}`, 0), "whole number"},
		"many dimensions": {file(`{"a":{"dtype":"U8","shape":[`+strings.Repeat("1,", 64)+`1],"data_offsets":[0,1]}}`, 1), "more than 64 numbers"},
		"dtype":           {file(`{"a":{"dtype":"F99","shape":[0],"data_offsets":[0,0]}}`, 0), "unknown dtype"},
		"key":             {file(`{"a":{"Dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, 0), "unknown or repeated"},
		"repeated key":    {file(`{"a":{"shape":[0],"shape":[0],"dtype":"F32","data_offsets":[0,0]}}`, 0), "unknown or repeated"},
		"missing key":     {file(`{"a":{"dtype":"F32","data_offsets":[0,0]}}`, 0), "lacks"},
		"metadata":        {file(`{"__metadata__":{"a":1}}`, 0), "not a string"},
		"metadata array":  {file(`{"__metadata__":[]}`, 0), "expected"},
		"metadata twice":  {file(`{"__metadata__":{"a":"1","a":"2"}}`, 0), "twice"},
		"tensor a number": {file(`{"a":1}`, 0), "expected"},
		"not utf-8":       {file("{\"\xff\":{}}", 0), "UTF-8"},
	}
	for name, c := range cases {
		_, err := read(c.file)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A header with more tensors than a model has is refused before all of it is read.
func TestManyTensors(t *testing.T) {
	b := []byte("{")
	for i := range maxTensors + 2 {
		b = fmt.Appendf(b, `"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`, i)
	}
	_, err := read(file(string(b)+"and no JSON", 0))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "the header has more than 262144 tensors") {
		t.Error(err)
	}
}

func TestOpenRefusesFolder(t *testing.T) {
	if _, err := Open(t.Context(), t.TempDir()); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A file cut off after its header was read gives an error, not zeros.
func TestReadOfShrunkFile(t *testing.T) {
	b := file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8)
	f, err := Read(t.Context(), bytes.NewReader(b[:len(b)-1]), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Read("a", make([]byte, 8)); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	if err := f.Read("a", make([]byte, 7)); err == nil {
		t.Error("a destination of the wrong size was accepted")
	}
	if err := f.Read("b", nil); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), ": a") {
		t.Errorf("%v does not name what there is", err)
	}
}

// A part of a tensor is read from any element on, across the pieces of a conversion.
func TestReadWeights(t *testing.T) {
	want := make([]float32, 3*chunkElems)
	for i := range want {
		want[i] = float32(i)
	}
	var out bytes.Buffer
	if err := Write(&out, []Entry{{Name: "a", Meta: shape.F32(len(want)), Bytes: shape.Bytes(want)}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := read(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]int{{0, len(want)}, {1, 2 * chunkElems}, {chunkElems, chunkElems}, {len(want) - 1, 1}, {len(want), 0}} {
		got := make([]float32, c[1])
		if err := f.ReadWeights("a", c[0], got); err != nil || !slices.Equal(got, want[c[0]:c[0]+c[1]]) {
			t.Errorf("%d from %d on: %v", c[1], c[0], err)
		}
	}
	for _, c := range [][2]int{{-1, 1}, {0, len(want) + 1}, {len(want), 1}, {math.MaxInt, 1}} {
		if err := f.ReadWeights("a", c[0], make([]float32, c[1])); err == nil {
			t.Errorf("%d from %d on was read", c[1], c[0])
		}
	}
}

func TestHalf(t *testing.T) {
	cases := map[uint16]float32{0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 1.0 / (1 << 24), 0x03ff: 1023.0 / (1 << 24),
		0x0400: 1.0 / (1 << 14), 0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1))}
	for h, want := range cases {
		if got := half(h); got != want {
			t.Errorf("half(%04x) = %v, want %v", h, got, want)
		}
	}
	if v := half(0x7e01); v == v {
		t.Errorf("half(7e01) = %v, want NaN", v)
	}
	if math.Float32bits(half(0x8000)) != 1<<31 {
		t.Error("minus zero lost its sign")
	}
}

func TestDecodeBFloat16AndWide(t *testing.T) {
	out := make([]float32, 2)
	if err := DecodeFloat32(BF16, []byte{0x80, 0x3f, 0x20, 0xc1}, out); err != nil || out[0] != 1 || out[1] != -10 {
		t.Errorf("%v %v", out, err)
	}
	wide := shape.Bytes([]float64{1, 1e300})
	if err := DecodeFloat32(F64, wide, out); !errors.Is(err, ErrConvert) || !strings.Contains(err.Error(), "element 1") {
		t.Error(err)
	}
	if err := DecodeInt32(U64, []byte{255, 255, 255, 255, 255, 255, 255, 255}, make([]int32, 1)); !errors.Is(err, ErrConvert) {
		t.Error(err)
	}
	if err := DecodeFloat32("F8_E4M3", []byte{1}, out[:1]); !errors.Is(err, ErrConvert) {
		t.Error(err)
	}
}

// What is written reads back, in any order of the entries the same bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := []shape.DType{shape.Float32, shape.Float64, shape.Int32, shape.Int64, shape.Uint8}
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z"<é.0-9]{0,8}`), 0, 6, rapid.ID).Draw(t, "names")
		var entries []Entry
		for _, n := range names {
			dims := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "dims")
			m := shape.Meta{DType: rapid.SampledFrom(types).Draw(t, "dtype"), Shape: dims}
			data := rapid.SliceOfN(rapid.Byte(), int(m.Bytes()), int(m.Bytes())).Draw(t, "data")
			e := Entry{Name: n, Meta: m, Bytes: data}
			if rapid.Bool().Draw(t, "lazy") {
				e = Entry{Name: n, Meta: m, Read: func(dst []byte) error { copy(dst, data); return nil }}
			}
			entries = append(entries, e)
		}
		meta := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "metadata")
		var a, b bytes.Buffer
		if err := Write(&a, entries, meta); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(entries)
		if err := Write(&b, entries, meta); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("the order of entries changed the file (%v)", err)
		}
		f, err := read(a.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range meta {
			if f.Metadata()[k] != v {
				t.Fatalf("metadata %q is %q, want %q", k, f.Metadata()[k], v)
			}
		}
		sameEntries(t, f, entries)
	})
}

func sameEntries(t *rapid.T, f *File, entries []Entry) {
	if len(f.Tensors()) != len(entries) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors()), len(entries))
	}
	for _, e := range entries {
		got, want := make([]byte, e.Meta.Bytes()), e.Bytes
		if err := f.Read(e.Name, got); err != nil {
			t.Fatal(err)
		}
		if e.Read != nil {
			want = make([]byte, e.Meta.Bytes())
			if err := e.Read(want); err != nil {
				t.Fatal(err)
			}
		}
		x, _ := f.Lookup(e.Name)
		if !x.Shape.Equal(e.Meta.Shape) || x.DType != FromShape(e.Meta.DType) || !bytes.Equal(got, want) {
			t.Fatalf("%v came back as %v", e.Meta, x)
		}
		if begin := f.parts[0].data + x.begin; x.Bytes() > 0 && begin%int64(x.DType.Size()) != 0 {
			t.Fatalf("%v is not aligned: byte %d", x, begin)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	one := Entry{Name: "a", Meta: shape.F32(1), Bytes: make([]byte, 4)}
	cases := map[string][]Entry{
		"repeated": {one, one},
		"reserved": {{Name: "__metadata__", Meta: shape.F32(1), Bytes: make([]byte, 4)}},
		"size":     {{Name: "a", Meta: shape.F32(2), Bytes: make([]byte, 4)}},
		"type":     {{Name: "a"}},
		"shape":    {{Name: "a", Meta: shape.F32(-1)}},
		"name":     {{Name: "\xff", Meta: shape.F32(1), Bytes: make([]byte, 4)}},
	}
	for name, entries := range cases {
		if err := Write(&bytes.Buffer{}, entries, nil); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}

// A failed write leaves the old file, and nothing beside it.
func TestWriteFileIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	good := []Entry{{Name: "a", Meta: shape.F32(1), Bytes: shape.Bytes([]float32{2})}}
	if err := WriteFile(path, good, map[string]string{"k": "v"}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := WriteFile(path, append(good, Entry{Name: "b", Meta: shape.F32(1), Read: func([]byte) error { return broken }}), nil)
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v left behind (%v)", left, err)
	}
	f, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if v, err := f.Float32("a"); err != nil || v[0] != 2 || f.Metadata()["k"] != "v" {
		t.Errorf("%v %v", v, err)
	}
}

// FuzzRead: whatever the bytes, an error or a file all of whose tensors read.
// A header of millions of tensors takes seconds: reading it ends with its context.
func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	text := `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`
	b := file(text, 1)
	if _, err := Read(ctx, bytes.NewReader(b), int64(len(b))); !errors.Is(err, over) {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	py, err := os.ReadFile("testdata/numpy.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(py)
	f.Add(file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
	f.Add(file(`{"__metadata__":{"a":"b"}}  `, 0))
	f.Add(file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := read(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		total := int64(0)
		for _, s := range x.Tensors() {
			total += s.Bytes()
			if err := x.Read(s.Name, make([]byte, s.Bytes())); err != nil {
				t.Fatal(err)
			}
			if _, err := x.Float32(s.Name); err != nil && !errors.Is(err, ErrConvert) {
				t.Fatal(err)
			}
			if _, err := x.Int32(s.Name); err != nil && !errors.Is(err, ErrConvert) {
				t.Fatal(err)
			}
		}
		if total > int64(len(b)) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(b))
		}
	})
}
