package initial_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// adapted are the variables of a model with an adapter.
func adapted() []*graph.Value {
	return []*graph.Value{
		{Name: "a.weight", Meta: shape.F32(2), Role: graph.Parameter, Init: graph.Init{Kind: graph.Normal, A: 1}, Tags: []string{graph.BaseTag}},
		{Name: "a.lora_A.weight", Meta: shape.F32(2), Role: graph.Parameter, Init: graph.Init{Kind: graph.Normal, A: 1}, Tags: []string{graph.AdapterTag}},
		{Name: "n.mean", Meta: shape.F32(1), Role: graph.Statistic},
	}
}

// TestOpenBase: the base is that of its hash alone, and the adapter is no part of it.
func TestOpenBase(t *testing.T) {
	vars, dir := adapted(), t.TempDir()
	file := func(name string, w, mean float32) string {
		t.Helper()
		path := filepath.Join(dir, name)
		err := safetensors.WriteFile(path, []safetensors.Entry{
			{Name: "a.weight", Meta: shape.F32(2), Bytes: shape.Bytes([]float32{1, w})},
			{Name: "a.lora_A.weight", Meta: shape.F32(2), Bytes: shape.Bytes([]float32{7, 7})},
			{Name: "n.mean", Meta: shape.F32(1), Bytes: shape.Bytes([]float32{mean})},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	hash := func(init string, seed uint64) string {
		t.Helper()
		x, err := initial.Open(t.Context(), init, seed, vars)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		sum, err := x.BaseHash(t.Context(), vars)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := file("first", 2, 3)
	sum := hash(first, 1)
	if again := hash(file("again", 2, 4), 5); again != sum {
		t.Errorf("statistics or the seed change the hash of a base in a file")
	}
	if one, again := hash("", 1), hash("", 1); one == hash("", 2) || one != again {
		t.Errorf("without a file, the base is not that of the seed")
	}
	x, err := initial.OpenBase(t.Context(), first, sum, 1, vars)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	w := make([]float32, 2)
	if err := x.Read(vars[0], shape.Bytes(w)); err != nil || !slices.Equal(w, []float32{1, 2}) {
		t.Errorf("%v, %v", w, err)
	}
	if err := x.Read(vars[1], shape.Bytes(w)); err != nil || slices.Equal(w, []float32{7, 7}) {
		t.Errorf("the adapter begins with the file's %v, %v", w, err)
	}
	other := file("other", 9, 3)
	_, err = initial.OpenBase(t.Context(), other, sum, 1, vars)
	if !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), sum) || !strings.Contains(err.Error(), hash(other, 1)) {
		t.Errorf("another base: %v", err)
	}
	if _, err := initial.OpenBase(t.Context(), "", sum, 1, vars); !errors.Is(err, initial.ErrInit) {
		t.Errorf("the seed's base in place of a file's: %v", err)
	}
	if _, err := initial.OpenBase(t.Context(), filepath.Join(dir, "none"), sum, 1, vars); !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), "put the file back") {
		t.Errorf("a base that is gone: %v", err)
	}
}

// TestOpenStored: a base in bfloat16 or int8 has the numbers of its file, rounded, also of a compressed one, and
// a hash of its own. A file of such numbers has the same one, as they are all kept.
func TestOpenStored(t *testing.T) {
	const rows, width = 7, 150001 // more than a piece
	dir := t.TempDir()
	wide := make([]float32, rows*width)
	for i := range wide {
		wide[i] = float32(i-len(wide)/3) * 1.0001
	}
	halves, blocks := make([]uint16, len(wide)), make([]byte, shape.I8Block(rows, width).Bytes())
	ops.NarrowBF16(halves, wide)
	for i := range rows {
		ops.NarrowInt8(blocks[i*len(blocks)/rows:], wide[i*width:][:width])
	}
	file := func(name string, w []float32, dims ...int) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := safetensors.WriteFile(path, []safetensors.Entry{{Name: "a.weight", Meta: shape.F32(dims...), Bytes: shape.Bytes(w)}}, nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	variable := func(m shape.Meta) []*graph.Value {
		return []*graph.Value{{Name: "a.weight", Meta: m, Role: graph.Parameter, Tags: []string{graph.BaseTag}}}
	}
	path := file("wide", wide, rows, width)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(data); err != nil || z.Close() != nil || os.WriteFile(path+".gz", packed.Bytes(), 0o600) != nil {
		t.Fatal(err)
	}
	inHalves := filepath.Join(dir, "halves")
	header := fmt.Sprintf(`{"a.weight":{"dtype":"BF16","shape":[%d,%d],"data_offsets":[0,%d]}}`, rows, width, 2*len(halves))
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	if err := os.WriteFile(inHalves, append(append(text, header...), shape.Bytes(halves)...), 0o600); err != nil {
		t.Fatal(err)
	}
	rounded := make([]float32, len(wide))
	ops.Widen(shape.I8Block(rows, width), rounded, blocks)
	for _, c := range []struct {
		meta   shape.Meta
		stored []byte
		same   string // a file of the rounded numbers
	}{{shape.BF16(rows, width), shape.Bytes(halves), inHalves}, {shape.I8Block(rows, width), blocks, file("rounded", rounded, rows, width)}} {
		var sums []string
		for _, path := range []string{path, path + ".gz", c.same} {
			vars := variable(c.meta)
			x, err := initial.Open(t.Context(), path, 1, vars)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := x.BaseHash(t.Context(), vars)
			if err != nil {
				t.Fatal(err)
			}
			read, err := x.Held(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(c.stored))
			if err := read(vars[0], got); err != nil || !slices.Equal(got, c.stored) {
				t.Errorf("%s as %v: other numbers than the file's, rounded: %v", path, c.meta, err)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			sums = append(sums, sum)
		}
		if sums[1] != sums[0] || sums[2] != sums[0] {
			t.Errorf("hashes of the same base as %v: %v", c.meta, sums)
		}
		x, err := initial.OpenBase(t.Context(), path, sums[0], 1, variable(shape.F32(rows, width)))
		if !errors.Is(err, initial.ErrInit) || x != nil {
			t.Errorf("a float32 base with the hash of one as %v: %v", c.meta, err)
		}
	}
	for m, want := range map[shape.DType]string{
		shape.BFloat16:  "tensor a.weight: element 1 is 3.4028235e+38, which bfloat16 cannot hold: set adapt.base to float32",
		shape.Int8Block: "", // 127 times a scale is finite
	} {
		vars := variable(shape.Meta{DType: m, Shape: shape.Of(2)})
		large, err := initial.Open(t.Context(), file("large", []float32{1, math.MaxFloat32}, 2), 1, vars)
		if err != nil {
			t.Fatal(err)
		}
		err = large.Read(vars[0], make([]byte, vars[0].Meta.Bytes()))
		if want == "" && err != nil || want != "" && (!errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), want)) {
			t.Errorf("the largest number as %v: %v", m, err)
		}
		if err := large.Close(); err != nil {
			t.Error(err)
		}
	}
}
