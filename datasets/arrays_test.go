package datasets

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

func TestTensorsThatAreNotFiniteAreRefused(t *testing.T) {
	for name, bad := range map[string]float32{"NaN": float32(math.NaN()), "infinity": float32(math.Inf(-1))} {
		path := filepath.Join(t.TempDir(), "data.safetensors")
		err := safetensors.WriteFile(path, []safetensors.Entry{
			{Name: "input", Meta: shape.F32(3, 2), Bytes: shape.Bytes([]float32{1, 2, 3, 4, 5, bad})},
			{Name: "target", Meta: shape.F32(3), Bytes: shape.Bytes([]float32{1, 2, 3})},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), Spec{Source: "tensors", Path: path})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "element 1 of sample 2") {
			t.Errorf("%s: got %v, want ErrFormat naming the element", name, err)
		}
	}
}

// Ids that no model can have are refused, and the message names the field and
// says how ids are numbered.
func TestLargeIDs(t *testing.T) {
	for field, says := range map[string]string{"target": "whole numbers as target are classes, numbered from 0", "input": "whole numbers as input are ids, numbered from 0"} {
		for _, id := range []int64{-1, mostIDs, math.MaxInt32, math.MaxInt32 + 1} {
			header := npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", 0)
			dir := folder(t, map[string][]byte{field + ".npy": append(header, shape.Bytes([]int64{0, id})...)})
			_, err := readColumns(t.Context(), dir, 0, arrayField{field, field})
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "element 1 is "+strconv.FormatInt(id, 10)) {
				t.Errorf("%s %d: %v", field, id, err)
			}
		}
	}
}

// An array takes its bytes in the file or fewer. More than there is to take is
// refused before it is read, with both numbers.
func TestArrayMemory(t *testing.T) {
	const rows, width = 300, 20
	element := func(dtype safetensors.DType, i int) []byte {
		b := make([]byte, dtype.Size())
		if dtype.Float() {
			return b // zero
		}
		b[0] = byte(i % 7)
		return b
	}
	for descr, dtype := range npyTypes {
		var input, target []byte
		for i := range rows * width {
			input = append(input, element(dtype, i)...)
		}
		for i := range rows {
			target = append(target, element(dtype, i)...)
		}
		order := "<"
		if dtype.Size() == 1 {
			order = "|"
		}
		dir := folder(t, map[string][]byte{
			"input.npy":  append(npy(fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%d, %d)}", order, descr, rows, width), 0), input...),
			"target.npy": append(npy(fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%d,)}", order, descr, rows), 0), target...),
		})
		take := min(dtype.Size(), 4) * rows * (width + 1)
		s := Spec{Source: "tensors", Path: dir, Memory: int64(take)}
		ds := open(t, s)
		got := 0
		for _, c := range ds.Train.table.columns {
			got += cap(c.data)
		}
		if got != take {
			t.Errorf("%s takes %d bytes, want %d", dtype, got, take)
		}
		s.Memory--
		_, err := Open(t.Context(), s)
		needed, free := units.TwoBytes(int64(take), int64(take-1))
		if says := "take " + needed + " of memory, and " + free + " is free"; !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", dtype, err, says)
		}
		s.Memory = int64(take - rows*min(dtype.Size(), 4) - 1)
		if _, err := OpenInputs(t.Context(), s, &ds.Info, filepath.Join(dir, "input.npy")); !errors.Is(err, ErrMemory) {
			t.Errorf("%s inputs: %v", dtype, err)
		}
	}
}

// The other files of numbers are refused as well.
func TestMemoryOfOtherSources(t *testing.T) {
	images := folder(t, map[string][]byte{
		"train-images-idx3-ubyte": idx(20, 2, 3), "train-labels-idx1-ubyte": idx(20),
		"t10k-images-idx3-ubyte.gz": packed(idx(5, 2, 3)), "t10k-labels-idx1-ubyte": idx(5),
	})
	mnist := Spec{Source: "mnist", Path: images, Memory: 25*6 + 25}
	info := open(t, mnist).Info
	mnist.Memory--
	if _, err := Open(t.Context(), mnist); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "take 175 B of memory, and 174 B is free") {
		t.Errorf("mnist: %v", err)
	}
	mnist.Memory = 20*6 - 1
	if _, err := OpenInputs(t.Context(), mnist, &info, filepath.Join(images, "train-images-idx3-ubyte")); !errors.Is(err, ErrMemory) {
		t.Errorf("images: %v", err)
	}
	for path, bytes := range map[string]int64{"testdata/pair.npz": 4*24 + 4*4, "testdata/packed.npz": 4*24 + 4*4, "testdata/mlp-sgd.safetensors": 4*16*64 + 4*16} {
		s := Spec{Source: "tensors", Path: path, Memory: bytes}
		open(t, s)
		s.Memory--
		if _, err := Open(t.Context(), s); !errors.Is(err, ErrMemory) {
			t.Errorf("%s: %v", path, err)
		}
	}
	line := strings.Repeat("8,", 63) + "16\n"
	s := Spec{Source: "digits", Memory: 3 * 65}
	info = open(t, s).Info
	path := write(t, "in.csv", strings.Repeat(line, 3))
	if _, err := OpenInputs(t.Context(), s, &info, path); err != nil {
		t.Error(err)
	}
	s.Memory--
	if _, err := OpenInputs(t.Context(), s, &info, path); !errors.Is(err, ErrMemory) {
		t.Errorf("digits: %v", err)
	}
}
