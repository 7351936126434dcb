package datasets

import (
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
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
			_, err := readColumn(t.Context(), dir, field, field)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "element 1 is "+strconv.FormatInt(id, 10)) {
				t.Errorf("%s %d: %v", field, id, err)
			}
		}
	}
}
